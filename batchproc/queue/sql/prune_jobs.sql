-- With their attempts and signals, by the foreign keys. A job that is being retried is held by somebody, and one that
-- was has another state: neither goes. Nor does one whose revision is open, as prunable.sql says it.
with locked as (
    select job_id, tenant_id
    from batchproc.processing_jobs j
    where job_id = any(%(job_ids)s) and state in ('completed', 'discarded', 'cancelled') and finished_at < %(until)s
      and (range_of is null
           or not exists (select from batchproc.ocr_revisions r
                          where r.revision_id = j.range_of and r.tenant_id = j.tenant_id and r.state = 'open'))
    order by job_id
    for update skip locked
)
delete from batchproc.processing_jobs j
using unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
where j.job_id = l.job_id and j.tenant_id = l.tenant_id
returning j.job_id, j.state
