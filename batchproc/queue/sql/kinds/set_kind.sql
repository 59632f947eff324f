-- A pause by a person takes the place of a brake's, and a limit or rate by a person that of a declared one. The bucket of
-- a new rate is full.
update batchproc.kinds
set paused = coalesce(%(paused)s, paused),
    paused_code = case when %(paused)s is null then paused_code end,
    paused_reason = case when %(paused)s is null then paused_reason else %(reason)s end,
    paused_at = case when %(paused)s is null then paused_at
                     when %(paused)s then case when paused then paused_at else clock_timestamp() end end,
    max_running = case when %(unlimited)s then null else coalesce(%(max_running)s, max_running) end,
    rate = case when %(unrated)s then null else coalesce(%(rate)s::float8, rate) end,
    burst = case when %(unrated)s then null when %(rate)s::float8 is null then burst else %(burst)s::int end,
    tokens = case when %(unrated)s or %(rate)s::float8 is not null then null else tokens end,
    refilled_at = case when %(unrated)s or %(rate)s::float8 is not null then null else refilled_at end
where kind = %(kind)s
returning kind
