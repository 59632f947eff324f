-- A job whose unique key got a successor meanwhile is left to it. Of several held ones of a key the newest goes on.
with locked as (
    select j.job_id, j.tenant_id, j.kind, j.unique_key, j.unique_while_running
    from batchproc.processing_jobs j
    join batchproc.campaigns c on c.campaign_id = j.campaign_id and not c.paused and c.cancelled_at is null
    where j.job_id = any(%(job_ids)s) and j.state = 'held'
    order by j.job_id
    for no key update of j skip locked
), judged as materialized (
    select l.job_id, l.tenant_id,
           l.unique_key is not null and (
               row_number() over (partition by l.tenant_id, l.kind, l.unique_key order by l.job_id desc) > 1
               -- The offset keeps the planner from gathering all that waits in a hash.
               or exists (select from batchproc.processing_jobs s
                          where s.tenant_id = l.tenant_id and s.kind = l.kind and s.unique_key = l.unique_key
                            and s.state in ('scheduled', 'available')
                          offset 0)
               or l.unique_while_running and exists (
                   select from batchproc.processing_jobs s
                   where s.tenant_id = l.tenant_id and s.kind = l.kind and s.unique_key = l.unique_key
                     and s.state in ('scheduled', 'available', 'running') and s.unique_while_running
                   offset 0)) as superseded
    from locked l
)
update batchproc.processing_jobs j
set state = case when r.superseded then 'cancelled'
                 when j.run_at > clock_timestamp() then 'scheduled'
                 else 'available' end,
    failure_code = case when r.superseded then 'superseded' else j.failure_code end,
    finished_at = case when r.superseded then clock_timestamp() end
from unnest(array(select job_id from judged), array(select tenant_id from judged),
            array(select superseded from judged)) as r(job_id, tenant_id, superseded)
where j.job_id = r.job_id and j.tenant_id = r.tenant_id
returning j.job_id, j.state, j.lane, j.tenant_id, j.kind
