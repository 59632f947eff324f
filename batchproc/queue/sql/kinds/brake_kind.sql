-- What is paused already keeps its reason, a person's above all. A kind whose row is gone, since somebody forgot it while
-- its node joined, is paused all the same.
insert into batchproc.kinds (kind, paused, paused_code, paused_reason, paused_at)
select %(kind)s::text, true, %(code)s::text, %(reason)s::text, clock_timestamp()
where not exists (select from batchproc.kinds k where k.kind = %(kind)s and k.paused)
on conflict (kind) do update
set paused = true, paused_code = excluded.paused_code, paused_reason = excluded.paused_reason,
    paused_at = excluded.paused_at
where not kinds.paused
