-- Due jobs of some kinds, by queue and by the languages that they name themselves.
select j.kind, j.languages, j.lane, j.tenant_id, count(*) as jobs
from batchproc.processing_jobs j
where j.state = 'available' and j.kind = any(%(language_kinds)s::text[])
  and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
  and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
  and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
group by j.kind, j.languages, j.lane, j.tenant_id
