-- Only what is not known at all: that a file is there does not say that it is the archive's.
insert into batchproc.storage_roots (root, boot_id, device, inode, filesystem, marker)
select %(root)s, %(boot_id)s, %(device)s, %(inode)s, %(filesystem)s, %(marker)s
where not exists (select from batchproc.storage_roots k where k.root_hash = sha256(%(root)s))
on conflict do nothing
