-- Worker seconds of the attempts of each kind, of the last so many days (of UTC, as they are counted).
select kind, sum(attempts)::bigint, sum(worker_seconds)
from batchproc.usage_daily
where day > (clock_timestamp() at time zone 'UTC')::date - %(days)s::int and attempts > 0
group by kind
