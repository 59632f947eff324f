-- By code, the most frequent first: the jobs that were given up on, and whose.
select t.slug as tenant, j.kind, j.failure_code, count(*) as jobs
from batchproc.processing_jobs j
join batchproc.tenants t using (tenant_id)
where j.campaign_id = %(campaign_id)s and j.state = 'discarded'
group by t.slug, j.kind, j.failure_code
order by count(*) desc, t.slug, j.kind, j.failure_code
