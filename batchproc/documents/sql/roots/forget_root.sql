delete from batchproc.storage_roots where root_hash = sha256(%(root)s)
