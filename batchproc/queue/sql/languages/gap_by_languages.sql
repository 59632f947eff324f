-- Jobs of one queue that name these languages themselves, locked; what somebody holds at this moment is passed over.
select j.job_id, j.tenant_id, t.slug, j.document_id, j.languages, t.settings -> 'languages'
from batchproc.processing_jobs j
join batchproc.tenants t on t.tenant_id = j.tenant_id and not t.paused
where j.state = 'available' and j.kind = %(kind)s and j.languages = %(languages)s::text[]
  and j.tenant_id = %(tenant_id)s and j.lane = %(lane)s and j.job_id <> all(%(skip)s::bigint[])
order by j.job_id
limit %(limit)s
for no key update of j skip locked
