-- What other times of other machines knew goes after a year.
with forgotten as (
    delete from batchproc.storage_roots
    where root_hash = sha256(%(root)s) and boot_id <> %(boot_id)s and known_at < clock_timestamp() - interval '1 year'
)
insert into batchproc.storage_roots as k (root, boot_id, device, inode, filesystem, marker)
values (%(root)s, %(boot_id)s, %(device)s, %(inode)s, %(filesystem)s, %(marker)s)
on conflict (root_hash, boot_id) do update
set device = excluded.device, inode = excluded.inode, filesystem = excluded.filesystem, marker = excluded.marker,
    known_at = clock_timestamp()
