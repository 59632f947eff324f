select p.root, p.path
from batchproc.document_paths p
join batchproc.documents d using (document_id, tenant_id)
where p.document_id = %(document_id)s and (%(tenant_id)s::bigint is null or p.tenant_id = %(tenant_id)s)
order by (p.root, p.path) = (d.root, d.path) desc, p.created_at desc, p.path
