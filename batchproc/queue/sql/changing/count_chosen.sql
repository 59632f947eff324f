-- How many jobs are chosen, by what tells them apart; chosen_jobs.sql has the same conditions.
select t.slug as tenant, j.kind, j.state, j.failure_code, count(*) as jobs
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
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
group by t.slug, j.kind, j.state, j.failure_code
order by count(*) desc, t.slug, j.kind, j.state, j.failure_code
