-- A conflict on the unique key returns no row; the notification goes out with the caller's commit.
with added as (
    insert into batchproc.processing_jobs
        (tenant_id, document_id, kind, lane, priority, state, run_at, args, unique_key, unique_while_running,
         max_attempts, campaign_id, run_id, traceparent, languages)
    select %(tenant_id)s, %(document_id)s, %(kind)s, %(lane)s, %(priority)s,
           case when exists (select from batchproc.campaigns c
                             where c.campaign_id = %(campaign_id)s and c.paused) then 'held'
                when %(run_at)s::timestamptz > clock_timestamp() then 'scheduled'
                else 'available' end,
           coalesce(%(run_at)s::timestamptz, clock_timestamp()), %(args)s::jsonb, %(unique_key)s,
           %(unique_while_running)s, %(max_attempts)s, %(campaign_id)s, %(run_id)s, %(traceparent)s,
           -- What it says itself, else what its document's hint says.
           coalesce(%(languages)s::text[],
                    (select string_to_array(d.language, '+') from batchproc.documents d
                     where d.document_id = %(hinting)s::bigint and d.tenant_id = %(tenant_id)s
                       and length(d.language) <= 500))
    on conflict do nothing
    returning job_id, state
)
select job_id,
       case when state = 'available' then pg_notify(%(channel)s, %(hint)s)::text end
from added
