-- A pause by a person takes the place of a brake's, and a limit or rate by a person that of a declared one. The bucket of
-- a new rate is full. A kind without a row gets one if the caller has a handler of it, whose limit and rate are declared
-- with it, or if a node that lives knows it: somebody may have forgotten the kind while that node joined.
insert into batchproc.kinds as k
    (kind, paused, paused_reason, paused_at, max_running, rate, burst, declared_limit, declared_rate, declared_burst)
select %(kind)s::text,
       coalesce(%(paused)s::boolean, false),
       case when %(paused)s::boolean is not null then %(reason)s::text end,
       case when %(paused)s::boolean then clock_timestamp() end,
       case when not %(unlimited)s::boolean then %(max_running)s::int end,
       case when not %(unrated)s::boolean then %(rate)s::float8 end,
       case when not %(unrated)s::boolean and %(rate)s::float8 is not null then %(burst)s::int end,
       %(declared_limit)s::int, %(declared_rate)s::float8, %(declared_burst)s::int
where %(handled)s::boolean
   or exists (select from batchproc.kinds known where known.kind = %(kind)s::text)
   or exists (select from batchproc.nodes n
              where n.lease_until > clock_timestamp() and %(kind)s::text = any(n.kinds))
on conflict (kind) do update
set paused = coalesce(%(paused)s::boolean, k.paused),
    paused_code = case when %(paused)s::boolean is null then k.paused_code end,
    paused_reason = case when %(paused)s::boolean is null then k.paused_reason else %(reason)s::text end,
    paused_at = case when %(paused)s::boolean is null then k.paused_at
                     when %(paused)s::boolean then case when k.paused then k.paused_at else clock_timestamp() end end,
    max_running = case when %(unlimited)s::boolean then null else coalesce(%(max_running)s::int, k.max_running) end,
    rate = case when %(unrated)s::boolean then null else coalesce(%(rate)s::float8, k.rate) end,
    burst = case when %(unrated)s::boolean then null
                 when %(rate)s::float8 is null then k.burst else %(burst)s::int end,
    tokens = case when %(unrated)s::boolean or %(rate)s::float8 is not null then null else k.tokens end,
    refilled_at = case when %(unrated)s::boolean or %(rate)s::float8 is not null then null else k.refilled_at end
returning k.kind
