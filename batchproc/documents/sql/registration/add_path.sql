-- A path that is known is written again only for a file that has changed since without its content having become another.
insert into batchproc.document_paths (tenant_id, document_id, root, path, bytes, modified_ns, changed_ns)
values (%(tenant_id)s, %(document_id)s, %(root)s, %(path)s, %(stamp_bytes)s, %(modified_ns)s, %(changed_ns)s)
on conflict (tenant_id, document_id, path_hash) do update
set bytes = excluded.bytes, modified_ns = excluded.modified_ns, changed_ns = excluded.changed_ns
where excluded.changed_ns is not null
  and (document_paths.bytes, document_paths.modified_ns, document_paths.changed_ns)
      is distinct from (excluded.bytes, excluded.modified_ns, excluded.changed_ns)
