-- What a node's slots are at, and how fast it works. A slot that is idle is written once, not again and again.
with idle as (
    update batchproc.node_slots
    set job_id = null, claim_id = null, begun_at = null, written_at = clock_timestamp()
    where node_id = %(node_id)s and job_id is not null and slot <> all(%(slots)s::int[])
), activity as (
    insert into batchproc.node_activity as a (node_id, run_id, ended, jobs_per_minute)
    values (%(node_id)s, %(run_id)s, %(ended)s, %(jobs_per_minute)s)
    on conflict (node_id) do update
    set run_id = excluded.run_id, ended = excluded.ended, jobs_per_minute = excluded.jobs_per_minute,
        written_at = clock_timestamp()
)
insert into batchproc.node_slots (node_id, slot, job_id, claim_id, worker_pid, begun_at, resident_bytes)
select %(node_id)s, s.slot, s.job_id, s.claim_id, s.worker_pid, clock_timestamp() - make_interval(secs => s.seconds),
       s.resident_bytes
from unnest(%(slots)s::int[], %(job_ids)s::bigint[], %(claim_ids)s::uuid[], %(worker_pids)s::int[],
            %(seconds)s::float8[], %(resident_bytes)s::bigint[])
     as s(slot, job_id, claim_id, worker_pid, seconds, resident_bytes)
on conflict (node_id, slot) do update
set job_id = excluded.job_id, claim_id = excluded.claim_id, worker_pid = excluded.worker_pid,
    begun_at = excluded.begun_at, resident_bytes = excluded.resident_bytes, written_at = clock_timestamp()
