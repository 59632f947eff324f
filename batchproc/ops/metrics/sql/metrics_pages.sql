-- The pages of these days (UTC), of all tenants; null leaves an end open.
select coalesce(sum(pages_text), 0)::float8 as text, coalesce(sum(pages_ocr), 0)::float8 as ocr,
       coalesce(sum(pages_blank), 0)::float8 as blank, coalesce(sum(pages_failed), 0)::float8 as failed
from batchproc.usage_daily
where (%(since)s::date is null or day >= %(since)s) and (%(before)s::date is null or day < %(before)s)
