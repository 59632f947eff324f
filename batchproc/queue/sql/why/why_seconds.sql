-- Seconds of a worker that an attempt at such a job takes, by what the last days saw of it, of all tenants: what
-- usual_seconds.sql has of all kinds, of one alone, whose days are found without those of the others.
select sum(u.worker_seconds) / nullif(sum(u.attempts), 0) as seconds
from batchproc.tenants t
cross join lateral (
    select * from batchproc.usage_daily
    where tenant_id = t.tenant_id and day > (clock_timestamp() at time zone 'UTC')::date - %(days)s::integer and kind = %(kind)s
    offset 0
) u
