-- As known_roots.sql has it.
select distinct on (root_hash) root, device, inode, filesystem, marker, known_at
from batchproc.storage_roots
order by root_hash, boot_id = %(boot_id)s desc, known_at desc
