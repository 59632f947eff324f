select max(u.day) filter (where 'day' = any(%(by)s::text[])) as day,
       max(t.slug) filter (where 'tenant' = any(%(by)s::text[])) as tenant,
       max(u.kind) filter (where 'kind' = any(%(by)s::text[])) as kind,
       sum(u.attempts)::bigint as attempts, sum(u.completed)::bigint as completed, sum(u.discarded)::bigint as discarded,
       sum(u.worker_seconds) as worker_seconds, sum(u.pages_text)::bigint as pages_text,
       sum(u.pages_ocr)::bigint as pages_ocr, sum(u.pages_blank)::bigint as pages_blank,
       sum(u.pages_failed)::bigint as pages_failed
from batchproc.usage_daily u
join batchproc.tenants t using (tenant_id)
where (%(tenant_id)s::bigint is null or u.tenant_id = %(tenant_id)s)
  and (cardinality(%(kinds)s::text[]) = 0 or u.kind = any(%(kinds)s))
  and u.day between %(since)s and %(until)s
group by case when 'day' = any(%(by)s) then u.day end, case when 'tenant' = any(%(by)s) then t.slug end,
         case when 'kind' = any(%(by)s) then u.kind end
order by day desc nulls last, tenant, kind
limit %(limit)s offset %(after)s
