-- By document, whatever the unique key: a job that was enqueued by hand has none, and what is held is in no index by its
-- key. The jobs of page ranges belong to a reading that has begun.
select document_id, args from batchproc.processing_jobs
where document_id = any (%(document_ids)s) and kind = %(kind)s and state in ('scheduled', 'available', 'held')
  and range_of is null
order by document_id, job_id
