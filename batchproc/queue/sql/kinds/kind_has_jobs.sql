select exists (select from batchproc.processing_jobs where kind = %(kind)s)
