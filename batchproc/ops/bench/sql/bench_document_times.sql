-- From the first claim to the last settle of a document's jobs of a kind, and how many of them have completed.
select count(*) filter (where a.outcome = 'completed') as completed,
       extract(epoch from max(a.ended_at) - min(a.started_at))::double precision as seconds
from batchproc.processing_jobs j
join batchproc.job_attempts a using (job_id)
where j.document_id = %(document_id)s and j.kind = %(kind)s
