select count(*) as nodes, coalesce(sum(slots), 0) as slots, (clock_timestamp() at time zone 'UTC')::date as today,
       extract(epoch from clock_timestamp())::float8 as now
from batchproc.nodes
where lease_until > clock_timestamp()
