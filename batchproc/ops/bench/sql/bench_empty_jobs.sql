-- In a bench's own schema, so that each side begins with the same table.
truncate batchproc.processing_jobs cascade
