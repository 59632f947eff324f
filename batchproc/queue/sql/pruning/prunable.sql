-- A stretch of finished jobs from the oldest on, after the last one seen, up to a time that the first look has set: of
-- these those that are wanted, and always the last, from which the next look goes on. Bounded by what it reads, not by
-- what it finds: where few are wanted, one statement would read for minutes.
-- The jobs of a revision that is still open are not: whoever joins its ranges asks them how they ended. Nor is what was
-- cancelled of a campaign while another job of its document waits or runs: the campaign counts that document as left,
-- and would count it as cancelled, too.
with stretch as materialized (
    select job_id, finished_at, state, kind, tenant_id, range_of, campaign_id, document_id
    from batchproc.processing_jobs
    where state in ('completed', 'discarded', 'cancelled') and finished_at < %(until)s
      and (finished_at, job_id) > (%(after_time)s::timestamptz, %(after_id)s::bigint)
    order by finished_at, job_id
    limit %(limit)s
), judged as (
    select job_id, finished_at, state,
           state = any(%(states)s::text[]) and (cardinality(%(kinds)s::text[]) = 0 or kind = any(%(kinds)s::text[]))
               and (%(tenant_id)s::bigint is null or tenant_id = %(tenant_id)s::bigint)
               and (range_of is null
                    or not exists (select from batchproc.ocr_revisions r
                                   where r.revision_id = stretch.range_of and r.tenant_id = stretch.tenant_id
                                     and r.state = 'open'))
               and (state <> 'cancelled' or campaign_id is null or document_id is null
                    or not exists (select from batchproc.processing_jobs o
                                   where o.document_id = stretch.document_id and o.tenant_id = stretch.tenant_id
                                     and o.campaign_id = stretch.campaign_id
                                     and o.state in ('scheduled', 'available', 'held', 'running')
                                   offset 0)) as wanted,
           row_number() over (order by finished_at desc, job_id desc) = 1 as is_last
    from stretch
)
select job_id, finished_at, state, wanted
from judged
where wanted or is_last
order by finished_at, job_id
