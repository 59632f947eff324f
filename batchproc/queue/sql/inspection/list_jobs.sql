select j.job_id, t.slug as tenant, j.kind, j.lane, j.priority, j.state, j.attempt, j.max_attempts, j.crashes, j.run_at,
       j.document_id, j.failure_code, j.created_at, j.claimed_at, j.finished_at, j.campaign_id, j.result
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
where j.job_id > %(after)s
  and (%(tenant)s::text is null or t.slug = %(tenant)s)
  and (%(states)s::text[] is null or j.state = any(%(states)s))
  and (%(kind)s::text is null or j.kind = %(kind)s)
  and (%(document_id)s::bigint is null or j.document_id = %(document_id)s)
  and (%(failure_code)s::text is null or j.failure_code = %(failure_code)s)
  and (%(campaign_id)s::bigint is null or j.campaign_id = %(campaign_id)s)
  and (%(older_than)s::interval is null
       or coalesce(j.finished_at, j.created_at) < clock_timestamp() - %(older_than)s::interval)
  and (%(newer_than)s::interval is null
       or coalesce(j.finished_at, j.created_at) >= clock_timestamp() - %(newer_than)s::interval)
order by j.job_id
limit %(limit)s
