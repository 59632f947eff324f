-- Seconds of a worker that an attempt at such a job takes, by what the last week saw of it, of all tenants.
select sum(u.worker_seconds) / nullif(sum(u.attempts), 0) as seconds
from batchproc.tenants t
cross join lateral (
    select * from batchproc.usage_daily
    where tenant_id = t.tenant_id and day >= (clock_timestamp() at time zone 'UTC')::date - 7 and kind = %(kind)s
    offset 0
) u
