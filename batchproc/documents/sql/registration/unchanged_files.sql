-- The documents of files that an import has read and that have not changed since; at most one row for each file.
select distinct on (g.place)
       g.place, d.document_id, d.failure_code, d.current_revision is not null, d.sha256, d.external_id, d.language,
       d.title, d.title_source
from unnest(%(hashes)s::bytea[], %(bytes)s::bigint[], %(modified)s::bigint[], %(changed)s::bigint[])
     with ordinality as g (path_hash, bytes, modified_ns, changed_ns, place)
join batchproc.document_paths p
    on p.tenant_id = %(tenant_id)s and p.path_hash = g.path_hash and p.changed_ns = g.changed_ns
   and p.changed_ns is not null and p.modified_ns = g.modified_ns and p.bytes = g.bytes
join batchproc.documents d on d.document_id = p.document_id and d.tenant_id = p.tenant_id
order by g.place, d.document_id desc
