-- Jobs that wait are given up on at somebody's wish, without an attempt; what somebody holds at this moment is passed
-- over, for a later look. As discard_missing.sql does it, but that no run has done it: none is to tell of it.
with locked as (
    select job_id, tenant_id
    from batchproc.processing_jobs
    where job_id = any(%(job_ids)s) and state in ('scheduled', 'available', 'held')
    order by job_id
    for no key update skip locked
), discarded as (
    update batchproc.processing_jobs j
    set state = 'discarded', failure_code = 'given_up', result = %(result)s::jsonb, run_id = null,
        finished_at = clock_timestamp()
    from unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
    where j.job_id = l.job_id and j.tenant_id = l.tenant_id
    returning j.job_id, j.tenant_id, j.kind, j.document_id,
              -- Of a range its document is told by the job that joins them; of a pilot nothing changes.
              j.range_of is not null and j.args ->> 'range' is distinct from 'join'
                  or j.args -> 'pilot' is not distinct from 'true'::jsonb as is_apart
), used as (
    insert into batchproc.usage_daily as u (tenant_id, day, kind, discarded)
    select tenant_id, (clock_timestamp() at time zone 'UTC')::date, kind, count(*)
    from discarded
    group by tenant_id, kind
    order by tenant_id, kind
    on conflict (tenant_id, day, kind) do update set discarded = u.discarded + excluded.discarded
), failed_documents as (
    update batchproc.documents d
    set status = 'failed', failure_code = 'given_up'
    from discarded c
    where c.kind = any(%(failing_kinds)s) and not c.is_apart and d.document_id = c.document_id
      and d.tenant_id = c.tenant_id and d.status in ('pending', 'failed')
), unsignalled as (
    delete from batchproc.job_signals s using discarded c where s.job_id = c.job_id
)
select job_id from discarded
