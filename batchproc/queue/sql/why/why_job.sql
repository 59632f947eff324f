-- Everything of one job, its tenant, its kind, its campaign and the node that holds it which may keep it from running.
select j.job_id, j.tenant_id, t.slug as tenant, j.kind, j.lane, j.priority, j.state, j.run_at, j.attempt, j.max_attempts,
       j.node_losses, j.document_id, j.failure_code, j.finished_at, j.campaign_id, j.unique_key, j.languages,
       clock_timestamp() as now,
       t.paused as tenant_paused, t.max_running as tenant_limit,
       coalesce(t.settings -> 'languages', '[]') as tenant_languages,
       (select count(*) from batchproc.processing_jobs r
        where r.state = 'running' and r.tenant_id = j.tenant_id and t.max_running is not null) as tenant_running,
       k.kind is not null as kind_known, coalesce(k.paused, false) as kind_paused, k.paused_code as kind_paused_code,
       k.paused_reason as kind_paused_reason, k.paused_at as kind_paused_at,
       coalesce(k.max_running, k.declared_limit) as kind_limit,
       (select count(*) from batchproc.processing_jobs r
        where r.state = 'running' and r.kind = j.kind
          and coalesce(k.max_running, k.declared_limit) is not null) as kind_running,
       coalesce(k.rate, k.declared_rate) as kind_rate,
       c.paused as campaign_paused, c.command as campaign_command,
       s.cancel_requested_at, s.done, s.total,
       j.claimed_at, n.host as node_host, n.pid as node_pid, n.lease_until as node_lease_until,
       coalesce(n.lease_until > clock_timestamp(), false) as node_alive,
       l.slot, l.worker_pid,
       a.detail as last_detail, a.outcome as last_outcome
from batchproc.processing_jobs j
join batchproc.tenants t on t.tenant_id = j.tenant_id
left join batchproc.kinds k on k.kind = j.kind
left join batchproc.campaigns c on c.campaign_id = j.campaign_id
left join batchproc.job_signals s on s.job_id = j.job_id
left join batchproc.nodes n on n.node_id = j.node_id
left join batchproc.node_slots l on l.node_id = j.node_id and l.claim_id = j.claim_id
left join lateral (
    select detail, outcome from batchproc.job_attempts where job_id = j.job_id order by ended_at desc limit 1
) a on true
where j.job_id = %(job_id)s
