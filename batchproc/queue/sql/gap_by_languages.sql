-- Jobs that name these languages themselves, locked; what somebody holds at this moment is passed over.
select j.job_id, j.tenant_id, t.slug, j.document_id, j.languages, t.settings -> 'languages'
from batchproc.processing_jobs j
join batchproc.tenants t on t.tenant_id = j.tenant_id and not t.paused
where j.state = 'available' and j.kind = %(kind)s and j.languages = %(languages)s::text[]
  and j.job_id <> all(%(skip)s::bigint[])
  and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
  and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
order by j.job_id
limit %(limit)s
for no key update of j skip locked
