-- A pause by a person takes the place of a brake's, and a limit by a person that of a declared one.
update batchproc.kinds
set paused = coalesce(%(paused)s, paused),
    paused_code = case when %(paused)s is null then paused_code end,
    paused_reason = case when %(paused)s is null then paused_reason else %(reason)s end,
    paused_at = case when %(paused)s is null then paused_at
                     when %(paused)s then case when paused then paused_at else clock_timestamp() end end,
    max_running = case when %(unlimited)s then null else coalesce(%(max_running)s, max_running) end
where kind = %(kind)s
returning kind
