-- What attempts of each tenant and kind took on the last days, in worker seconds, and what came of them. Jobs without
-- an attempt, given up by hand, took nothing and tell nothing: no more were given up on than there were attempts left.
select tenant_id, kind, sum(worker_seconds) as seconds, sum(completed)::bigint as completed,
       sum(completed + least(discarded, greatest(attempts - completed, 0)))::bigint as jobs,
       sum(pages_text)::bigint as pages_text, sum(pages_blank)::bigint as pages_blank,
       sum(pages_ocr + pages_failed)::bigint as pages_ocr,
       sum(pages_timed)::bigint as pages_timed, sum(seconds_ocr) as seconds_ocr
from batchproc.usage_daily
where day > (clock_timestamp() at time zone 'UTC')::date - %(days)s::integer
group by tenant_id, kind
