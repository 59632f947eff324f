-- Every ending of an attempt: the job, its attempt row, usage, follow-ups and the document's failure, in one
-- statement, fenced by the claim. A claim that is gone gives no row. Rows are locked in job_id order.
with ending as materialized (
    select e.*
    from unnest(%(transitions)s::jsonb[]) as t(transition)
    cross join lateral jsonb_to_record(t.transition) as e(
        job_id bigint, claim_id uuid, state text, delay double precision, attempt smallint, crashes smallint,
        timeouts smallint, node_losses smallint, result jsonb, failure_code text, outcome text, error_class text,
        error_type text, detail text, worker_pid integer, seconds double precision, fails_document boolean,
        follow_ups jsonb)
    order by e.job_id
), held as materialized (
    select j.job_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt as number, j.claimed_at, j.node_id, j.run_id,
           j.campaign_id, j.document_id, e as ending,
           -- The offset keeps the planner from gathering all that waits in a hash.
           e.state in ('scheduled', 'available') and j.unique_key is not null and exists (
               select from batchproc.processing_jobs s
               where s.tenant_id = j.tenant_id and s.kind = j.kind and s.unique_key = j.unique_key
                 and s.state in ('scheduled', 'available')
               offset 0) as superseded
    from ending e
    cross join lateral (
        -- By id alone: the index of what runs is full of dead entries. Only a running job has a claim_id.
        select *
        from batchproc.processing_jobs r
        where r.job_id = e.job_id and r.claim_id = e.claim_id
          and (not %(rescue)s or not exists (
              select from batchproc.nodes n where n.node_id = r.node_id and n.lease_until > clock_timestamp()))
        limit 1
        for update
    ) j
), settled as (
    update batchproc.processing_jobs j
    set state = case when h.superseded then 'cancelled'
                     -- It was run before its time, by its id: it waits for it again.
                     when (h.ending).state = 'available' and (h.ending).delay is null
                          and j.run_at > clock_timestamp() then 'scheduled'
                     else (h.ending).state end,
        run_at = case when (h.ending).delay is null then j.run_at
                      else clock_timestamp() + make_interval(secs => (h.ending).delay) end,
        attempt = (h.ending).attempt, crashes = (h.ending).crashes, timeouts = (h.ending).timeouts,
        node_losses = (h.ending).node_losses,
        result = coalesce((h.ending).result, case when (h.ending).state = 'discarded' then j.result end),
        failure_code = case when h.superseded then 'superseded' else (h.ending).failure_code end,
        claim_id = null, node_id = null,
        finished_at = case when h.superseded or (h.ending).state in ('completed', 'discarded', 'cancelled')
                           then clock_timestamp() end
    from held h
    where j.job_id = h.job_id and j.tenant_id = h.tenant_id
    returning j.job_id, j.state
), attempted as (
    insert into batchproc.job_attempts
        (claim_id, job_id, tenant_id, number, node_id, run_id, worker_pid, started_at, ended_at, seconds, outcome,
         error_class, failure_code, error_type, detail)
    select (ending).claim_id, job_id, tenant_id, number, node_id, run_id, (ending).worker_pid, claimed_at,
           clock_timestamp(), coalesce((ending).seconds, 0), (ending).outcome, (ending).error_class,
           (ending).failure_code, (ending).error_type, (ending).detail
    from held
), used as (
    insert into batchproc.usage_daily as u
        (tenant_id, day, kind, attempts, worker_seconds, completed, discarded)
    select tenant_id, (clock_timestamp() at time zone 'UTC')::date, kind, count(*), sum(coalesce((ending).seconds, 0)),
           count(*) filter (where (ending).state = 'completed'), count(*) filter (where (ending).state = 'discarded')
    from held
    group by tenant_id, kind
    order by tenant_id, kind
    on conflict (tenant_id, day, kind) do update
    set attempts = u.attempts + excluded.attempts, worker_seconds = u.worker_seconds + excluded.worker_seconds,
        completed = u.completed + excluded.completed, discarded = u.discarded + excluded.discarded
), failed_documents as (
    update batchproc.documents d
    set status = 'failed', failure_code = (h.ending).failure_code
    from held h
    where (h.ending).fails_document and d.document_id = h.document_id and d.tenant_id = h.tenant_id
      and d.status in ('pending', 'failed')
), followed as (
    insert into batchproc.processing_jobs
        (tenant_id, document_id, kind, lane, priority, state, args, unique_key, unique_while_running, max_attempts,
         campaign_id, run_id)
    select h.tenant_id, f.document_id, f.kind, h.lane, h.priority, 'available', f.args, f.unique_key,
           f.unique_while_running, f.max_attempts, h.campaign_id, h.run_id
    from held h
    cross join lateral jsonb_to_recordset((h.ending).follow_ups) as f(
        kind text, args jsonb, document_id bigint, unique_key text, unique_while_running boolean,
        max_attempts smallint)
    on conflict do nothing
    returning lane, tenant_id, kind
), unsignalled as (
    delete from batchproc.job_signals s using held h where s.job_id = h.job_id
)
select job_id, state, null::smallint as lane, null::bigint as tenant_id, null::text as kind from settled
union all
select distinct null::bigint, null, lane, tenant_id, kind from followed
