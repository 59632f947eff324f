insert into batchproc.document_paths (tenant_id, document_id, root, path)
values (%(tenant_id)s, %(document_id)s, %(root)s, %(path)s)
on conflict do nothing
