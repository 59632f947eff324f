-- Every ending of an attempt: the job, its attempt row, usage, follow-ups and the document's failure, in one
-- statement, fenced by the claim. A claim that is gone gives no row. Rows are locked in job_id order.
-- A job that would wait again ends instead when somebody wants it cancelled, or when a successor waits already; it is
-- held when its campaign is paused. What is asked for after this statement began is found by strays.sql.
with ending as materialized (
    select e.*
    -- One value, not an array of them: that takes the node longer to write than the server to read.
    from jsonb_to_recordset(%(transitions)s::jsonb) as e(
        job_id bigint, claim_id uuid, state text, delay double precision, attempt smallint, crashes smallint,
        timeouts smallint, node_losses smallint, result text, failure_code text, outcome text, error_class text,
        error_type text, detail text, worker_pid integer, seconds double precision, fails_document boolean,
        follow_ups jsonb)
    order by e.job_id
), claimed as materialized (
    select j.job_id, j.tenant_id, j.kind, j.lane, j.priority, j.attempt as number, j.claimed_at, j.node_id, j.run_id,
           j.campaign_id, j.document_id, j.range_of, j.traceparent, e as ending,
           e.state in ('scheduled', 'available') as waits,
           -- The offsets keep the planner from gathering all that waits in a hash.
           e.state in ('scheduled', 'available') and exists (
               select from batchproc.job_signals s
               where s.job_id = j.job_id and s.cancel_requested_at is not null
               offset 0) as cancelled,
           j.campaign_id is not null and exists (
               select from batchproc.campaigns p where p.campaign_id = j.campaign_id and p.paused
               offset 0) as paused,
           e.fails_document and not batchproc.spares_document(j.range_of, j.args) as fails_document,
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
        -- Not "for update": a cancel request's foreign key looks at this row while it holds its own.
        for no key update
    ) j
), settled as (
    update batchproc.processing_jobs j
    set state = case when c.cancelled or c.superseded then 'cancelled'
                     when c.waits and c.paused then 'held'
                     -- It was run before its time, by its id: it waits for it again.
                     when (c.ending).state = 'available' and (c.ending).delay is null
                          and j.run_at > clock_timestamp() then 'scheduled'
                     else (c.ending).state end,
        run_at = case when (c.ending).delay is null then j.run_at
                      else clock_timestamp() + make_interval(secs => (c.ending).delay) end,
        attempt = (c.ending).attempt, crashes = (c.ending).crashes, timeouts = (c.ending).timeouts,
        node_losses = (c.ending).node_losses,
        result = coalesce((c.ending).result::jsonb, case when (c.ending).state = 'discarded' then j.result end),
        failure_code = case when c.cancelled then null when c.superseded then 'superseded'
                            else (c.ending).failure_code end,
        claim_id = null, node_id = null,
        finished_at = case when c.cancelled or c.superseded
                                or (c.ending).state in ('completed', 'discarded', 'cancelled')
                           then clock_timestamp() end
    from claimed c
    where j.job_id = c.job_id and j.tenant_id = c.tenant_id
    returning (c.ending).claim_id, j.state
), attempted as (
    insert into batchproc.job_attempts
        (claim_id, job_id, tenant_id, number, node_id, run_id, worker_pid, started_at, ended_at, seconds, outcome,
         error_class, failure_code, error_type, detail, gave_up)
    select (ending).claim_id, job_id, tenant_id, number, node_id, run_id, (ending).worker_pid, claimed_at,
           clock_timestamp(), coalesce((ending).seconds, 0), (ending).outcome, (ending).error_class,
           (ending).failure_code, (ending).error_type, (ending).detail, (ending).state = 'discarded'
    from claimed
), used as (
    insert into batchproc.usage_daily as u
        (tenant_id, day, kind, attempts, worker_seconds, completed, discarded)
    select tenant_id, (clock_timestamp() at time zone 'UTC')::date, kind, count(*), sum(coalesce((ending).seconds, 0)),
           count(*) filter (where (ending).state = 'completed'), count(*) filter (where (ending).state = 'discarded')
    from claimed
    group by tenant_id, kind
    order by tenant_id, kind
    on conflict (tenant_id, day, kind) do update
    set attempts = u.attempts + excluded.attempts, worker_seconds = u.worker_seconds + excluded.worker_seconds,
        completed = u.completed + excluded.completed, discarded = u.discarded + excluded.discarded
), failed_documents as (
    update batchproc.documents d
    set status = 'failed', failure_code = (c.ending).failure_code
    from claimed c
    where c.fails_document and d.document_id = c.document_id and d.tenant_id = c.tenant_id
      and d.status in ('pending', 'failed')
), followed as (
    insert into batchproc.processing_jobs
        (tenant_id, document_id, kind, lane, priority, state, args, unique_key, unique_while_running, max_attempts,
         campaign_id, run_id, traceparent, languages, range_of)
    select c.tenant_id, f.document_id, f.kind, c.lane,
           -- The job that joins ranges goes before others; what follows it has their priority.
           case when c.range_of is null then c.priority
                else coalesce((select r.priority from batchproc.processing_jobs r
                               where r.range_of = c.range_of and r.tenant_id = c.tenant_id and r.job_id <> c.job_id
                               order by r.job_id limit 1), c.priority) end,
           case when c.paused then 'held' else 'available' end, f.args, f.unique_key, f.unique_while_running,
           f.max_attempts, c.campaign_id, c.run_id, c.traceparent,
           coalesce(f.languages,
                    case when f.by_language
                         then (select string_to_array(d.language, '+') from batchproc.documents d
                               where d.document_id = f.document_id and d.tenant_id = c.tenant_id
                                 and length(d.language) <= 500) end),
           f.range_of
    from claimed c
    cross join lateral jsonb_to_recordset((c.ending).follow_ups) as f(
        kind text, args jsonb, document_id bigint, unique_key text, unique_while_running boolean,
        max_attempts smallint, languages text[], by_language boolean, range_of bigint)
    on conflict do nothing
    returning lane, tenant_id, kind, state
), unsignalled as (
    -- A request that came meanwhile stays with a job that waits again: the row's newest version decides.
    delete from batchproc.job_signals s using claimed c
    where s.job_id = c.job_id and (s.cancel_requested_at is null or c.cancelled or not c.waits)
)
select claim_id, state, null::smallint as lane, null::bigint as tenant_id, null::text as kind from settled
union all
select distinct null::uuid, null, lane, tenant_id, kind from followed where state = 'available'
