-- Campaigns, the newest first, from below the last one seen. Those completed are counted in an index alone; documents
-- are looked for among the jobs which have not come to an end or were cancelled: one is left while any of its jobs
-- waits or runs, and cancelled when somebody cancelled one of them and none is left. A campaign of an older release does
-- not know how many documents it had, and counts those of its jobs. What prunes have deleted stays counted.
select c.campaign_id, c.command, c.kind, c.scope ->> 'tenant' as tenant, c.paused, c.created_at, c.filled_at,
       c.cancelled_at, c.cancelling,
       coalesce(c.documents, (select count(distinct j.document_id) from batchproc.campaign_jobs j
                              where j.campaign_id = c.campaign_id)) as documents,
       d.documents_left, d.documents_cancelled + c.pruned_documents_cancelled as documents_cancelled, s.jobs,
       c.pruned_completed + c.pruned_discarded + c.pruned_cancelled as pruned
from batchproc.campaigns c
cross join lateral (
    select coalesce(jsonb_object_agg(state, jobs), '{}') as jobs
    from (select state, sum(jobs)::bigint as jobs
          from (select state, count(*) as jobs from batchproc.campaign_jobs j
                where j.campaign_id = c.campaign_id
                group by state
                union all
                select state, jobs
                from (values ('completed', c.pruned_completed), ('discarded', c.pruned_discarded),
                             ('cancelled', c.pruned_cancelled)) as pruned(state, jobs)
                where jobs > 0) parts
          group by state) counted
) s
cross join lateral (
    select count(*) filter (where is_left) as documents_left,
           count(*) filter (where is_cancelled and not is_left) as documents_cancelled
    from (select bool_or(j.state <> 'cancelled') as is_left,
                 bool_or(j.state = 'cancelled' and j.failure_code is distinct from 'superseded') as is_cancelled
          from (select document_id, job_id, state, failure_code from batchproc.campaign_jobs_left l
                where l.campaign_id = c.campaign_id
                union all
                select document_id, job_id, state, failure_code from batchproc.processing_jobs o
                where o.campaign_id = c.campaign_id and o.state = 'cancelled') j
          group by coalesce(j.document_id, -j.job_id)) of_document
) d
where (%(before)s::bigint is null or c.campaign_id < %(before)s)
  and (%(campaign_id)s::bigint is null or c.campaign_id = %(campaign_id)s)
  and (%(tenant)s::text is null or c.scope ->> 'tenant' = %(tenant)s)
order by c.campaign_id desc
limit %(limit)s
