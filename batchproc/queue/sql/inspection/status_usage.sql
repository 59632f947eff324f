-- What all nodes have done since the beginning of a day (UTC), and the time by the database's clock: the difference of
-- two looks is a rate. A look into each tenant's days costs less than one at all days there are.
select clock_timestamp() as at, coalesce(sum(u.attempts), 0)::bigint as attempts,
       coalesce(sum(u.completed), 0)::bigint as completed, coalesce(sum(u.discarded), 0)::bigint as discarded,
       coalesce(sum(u.pages_text + u.pages_ocr + u.pages_blank + u.pages_failed), 0)::bigint as pages
from batchproc.tenants t
cross join lateral (
    select * from batchproc.usage_daily where tenant_id = t.tenant_id and day >= %(since)s::date offset 0
) u
