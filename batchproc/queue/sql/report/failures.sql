-- What a run, or the jobs of a campaign, came to that somebody has to look at: the jobs that were given up on and, with
-- ``partial``, the documents of which pages failed. By tenant, state and code: the worst of each tenant, then the next
-- of each, so that one tenant's troubles hide no other's. Of each the first few.
-- The partial documents are looked for only when the run counted some: no index leads to them. A document in ranges is
-- told of once: by the job that joins them, else by the first range that was given up on, as ranges_told_otherwise.sql
-- counts it. A document is partial by what the job itself found, as Counts has it: not by what a later one made of it,
-- nor by which revision is current. A pilot makes nothing of it.
-- With ``since`` and ``until`` also what the run gave up on in attempts that ended between them and somebody has retried
-- since, whatever became of it: ``now`` is its state, with the code if it is discarded again.
with failed as (
    select r.job_id, r.tenant_id, r.kind, r.document_id, r.failure_code, r.state, r.result, 0 as failed_pages,
           null::text as now, null::uuid as claim_id
    from batchproc.processing_jobs r
    where (%(run_id)s::bigint is not null and r.run_id = %(run_id)s
           or %(campaign_id)s::bigint is not null and r.campaign_id = %(campaign_id)s)
      and r.state = 'discarded' and not coalesce(r.failure_code = any(%(accepted)s::text[]), false)
      and (r.range_of is null or r.args ->> 'range' = 'join'
           or not exists (
               select from batchproc.processing_jobs o
               where o.range_of = r.range_of and o.tenant_id = r.tenant_id and o.run_id is not distinct from r.run_id
                 and (o.args ->> 'range' = 'join' and o.state in ('completed', 'discarded')
                      or o.state = 'discarded' and o.job_id < r.job_id)))
    union all
    (select distinct on (j.range_of, coalesce(j.range_of, j.job_id))
            j.job_id, j.tenant_id, j.kind, j.document_id, a.failure_code, 'discarded', null, 0,
            concat_ws(', ', j.state, case when j.state = 'discarded' then j.failure_code end), a.claim_id
     from batchproc.job_attempts a
     join batchproc.processing_jobs j using (job_id, tenant_id)
     where %(since)s::timestamptz is not null and a.run_id = %(run_id)s::bigint
       and a.ended_at between %(since)s::timestamptz and %(until)s::timestamptz
       and a.outcome = 'failed' and a.gave_up and not (j.state = 'discarded' and j.run_id is not distinct from a.run_id)
       and not coalesce(a.failure_code = any(%(accepted)s::text[]), false)
       and (j.range_of is null
            or not exists (
                select from batchproc.processing_jobs o
                where o.range_of = j.range_of and o.tenant_id = j.tenant_id and o.run_id is not distinct from a.run_id
                  and (o.args ->> 'range' = 'join' and o.state = 'completed' or o.state = 'discarded')))
     order by j.range_of, coalesce(j.range_of, j.job_id), a.ended_at desc)
    union all
    select j.job_id, j.tenant_id, j.kind, j.document_id, j.result #>> '{failed_pages,0,code}', j.state, null,
           (j.result ->> 'failed_page_count')::integer, null, null
    from batchproc.processing_jobs j
    where %(partial)s and (j.result ->> 'failed_page_count')::integer > 0
      and j.args -> 'pilot' is distinct from 'true'::jsonb
      and not coalesce(j.result #>> '{failed_pages,0,code}' = any(%(accepted)s::text[]), false)
      and (%(run_id)s::bigint is not null and j.run_id = %(run_id)s
           or %(campaign_id)s::bigint is not null and j.campaign_id = %(campaign_id)s)
      and j.state = 'completed' and j.kind = 'ocr'
      and case when j.range_of is null then not coalesce(j.result ? 'ranges', false) else j.args ->> 'range' = 'join' end
), placed as (
    select f.*, row_number() over same as place, count(*) over whole as jobs, sum(failed_pages) over whole as pages,
           count(*) over (partition by tenant_id) as of_tenant
    from failed f
    window whole as (partition by tenant_id, state, failure_code), same as (whole order by job_id)
), turns as (
    select p.*, dense_rank() over (partition by tenant_id order by state desc, jobs desc, failure_code) as turn
    from placed p
), groups as (
    select p.*, dense_rank() over (
               order by turn, state desc, jobs desc, of_tenant desc, tenant_id, failure_code) as rank,
           count(*) filter (where place = 1) over () as groups,
           count(*) filter (where place = 1 and turn = 1) over () as tenants
    from turns p
)
select t.slug as tenant, f.job_id, f.kind, f.document_id, f.failure_code, d.path, f.state, f.jobs,
       f.pages::bigint as failed_pages, f.groups, f.tenants, f.rank, f.now,
       -- One that was given up on without an attempt tells in its result what was missing.
       coalesce(case when f.failure_code = 'missing_language' and jsonb_typeof(f.result -> 'missing_languages') = 'array'
                     then 'no node has ' || (select string_agg(l, ', ') from jsonb_array_elements_text(
                                                 f.result -> 'missing_languages') as l) end,
                -- What no handler has named has its cause where it happened; that goes last, where a line is cut.
                case when f.failure_code in ('internal_error', 'poison', 'out_of_memory', 'no_space', 'database_lost',
                                             'forkserver_died')
                     then coalesce(nullif(concat_ws(', ', a.detail, a.error_type), ''),
                                   case when a.error_class = 'lease_expired' then 'its node was lost' end)
                     else a.detail end) as detail
from groups f
join batchproc.tenants t using (tenant_id)
left join batchproc.documents d on d.document_id = f.document_id and d.tenant_id = f.tenant_id
left join lateral (
    select detail, error_type, error_class from batchproc.job_attempts
    where job_id = f.job_id and (f.claim_id is null or claim_id = f.claim_id)
    order by ended_at desc
    limit 1
) a on true
where f.place <= %(examples)s and f.rank <= %(limit)s
order by f.rank, f.place
