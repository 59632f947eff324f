insert into batchproc.job_signals as s (job_id, tenant_id, done, total)
select p.job_id, j.tenant_id, p.done, p.total
from unnest(%(job_ids)s::bigint[], %(claim_ids)s::uuid[], %(done)s::int[], %(total)s::int[])
     as p(job_id, claim_id, done, total)
cross join lateral (
    select tenant_id from batchproc.processing_jobs where job_id = p.job_id and claim_id = p.claim_id limit 1
) j
order by p.job_id
on conflict (job_id) do update
set done = excluded.done, total = excluded.total, updated_at = clock_timestamp()
