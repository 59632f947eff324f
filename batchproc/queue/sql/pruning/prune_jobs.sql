-- With their attempts and signals, by the foreign keys. A job that is being retried is held by somebody, and one that
-- was has another state: neither goes. Nor does one whose revision is open, nor one that was cancelled while another of
-- its document is left, as prunable.sql says it.
-- Campaigns go on counting what they lose, as list_campaigns.sql counts it. A document that was cancelled is counted with
-- the last of its cancelled jobs: lock_campaigns.sql comes before, so that of two prunes at once one sees it is the last.
with locked as (
    select job_id, tenant_id, campaign_id, document_id, state,
           state = 'cancelled' and failure_code is distinct from 'superseded' as is_cancelled
    from batchproc.processing_jobs j
    where job_id = any(%(job_ids)s) and state in ('completed', 'discarded', 'cancelled') and finished_at < %(until)s
      and (range_of is null
           or not exists (select from batchproc.ocr_revisions r
                          where r.revision_id = j.range_of and r.tenant_id = j.tenant_id and r.state = 'open'))
      and (state <> 'cancelled' or campaign_id is null or document_id is null
           or not exists (select from batchproc.processing_jobs o
                          where o.document_id = j.document_id and o.tenant_id = j.tenant_id
                            and o.campaign_id = j.campaign_id
                            and o.state in ('scheduled', 'available', 'held', 'running')
                          offset 0))
    order by job_id
    for update skip locked
), counted as (
    update batchproc.campaigns c
    set pruned_completed = c.pruned_completed + g.completed, pruned_discarded = c.pruned_discarded + g.discarded,
        pruned_cancelled = c.pruned_cancelled + g.cancelled,
        pruned_documents_cancelled = c.pruned_documents_cancelled + g.documents_cancelled
    from (
        select l.campaign_id, count(*) filter (where l.state = 'completed') as completed,
               count(*) filter (where l.state = 'discarded') as discarded,
               count(*) filter (where l.state = 'cancelled') as cancelled,
               count(distinct coalesce(l.document_id, -l.job_id)) filter (
                   where l.is_cancelled and not exists (
                       select from batchproc.processing_jobs o
                       where o.document_id = l.document_id and o.tenant_id = l.tenant_id
                         and o.campaign_id = l.campaign_id and o.state = 'cancelled'
                         and o.failure_code is distinct from 'superseded'
                         and o.job_id <> all(array(select job_id from locked))
                       offset 0)) as documents_cancelled
        from locked l
        where l.campaign_id is not null
        group by l.campaign_id
    ) g
    where c.campaign_id = g.campaign_id
)
delete from batchproc.processing_jobs j
using unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
where j.job_id = l.job_id and j.tenant_id = l.tenant_id
returning j.job_id, j.state
