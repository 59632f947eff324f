-- Of each root what this machine knows since it was started, or what was found last before that, or elsewhere.
select distinct on (root_hash) root, device, inode, filesystem, marker, known_at
from batchproc.storage_roots
where root_hash = any(%(hashes)s)
order by root_hash, boot_id = %(boot_id)s desc, known_at desc
