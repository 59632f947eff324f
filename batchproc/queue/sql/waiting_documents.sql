-- By document: what is held is in no index by its key.
select distinct document_id from batchproc.processing_jobs
where document_id = any (%(document_ids)s) and kind = %(kind)s and state in ('scheduled', 'available', 'held')
  and unique_key = 'document:' || document_id
