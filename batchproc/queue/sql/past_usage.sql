-- What attempts of each tenant and kind took on the last days, in worker seconds, and what came of them.
select tenant_id, kind, sum(worker_seconds) as seconds, sum(completed + discarded)::bigint as jobs,
       sum(pages_text)::bigint as pages_text, sum(pages_blank)::bigint as pages_blank,
       sum(pages_ocr + pages_failed)::bigint as pages_ocr
from batchproc.usage_daily
where day > (clock_timestamp() at time zone 'UTC')::date - %(days)s::integer
group by tenant_id, kind
