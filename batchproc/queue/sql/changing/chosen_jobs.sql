-- The next chosen jobs after the last one seen. A job that was superseded is only chosen by its code: its successor
-- did, or does, its work. The age of a job counts from its end, or where it has none yet, from when it was enqueued.
-- count_chosen.sql has the same conditions, and a test compares them. A function of the schema could hold them for
-- both, but commands of several releases share the schema: each further filter would take a migration and a second
-- function. list_jobs.sql asks otherwise: for a tenant that need not exist, and for what was superseded, too.
select j.job_id
from batchproc.processing_jobs j
where j.job_id > %(after)s and j.job_id <= %(until)s
  and j.state = any(%(states)s)
  and (%(tenant_id)s::bigint is null or j.tenant_id = %(tenant_id)s)
  and (%(kinds)s::text[] is null or j.kind = any(%(kinds)s))
  and (%(failure_codes)s::text[] is null or j.failure_code = any(%(failure_codes)s))
  and (j.failure_code is distinct from 'superseded' or 'superseded' = any(%(failure_codes)s))
  and (%(campaign_id)s::bigint is null or j.campaign_id = %(campaign_id)s)
  and (%(document_id)s::bigint is null or j.document_id = %(document_id)s)
  and (%(before)s::timestamptz is null or coalesce(j.finished_at, j.created_at) < %(before)s)
  and (%(since)s::timestamptz is null or coalesce(j.finished_at, j.created_at) >= %(since)s)
  and (%(ended_since)s::timestamptz is null or j.finished_at >= %(ended_since)s)
  and (%(ended_until)s::timestamptz is null or j.finished_at <= %(ended_until)s)
order by j.job_id
limit %(limit)s
