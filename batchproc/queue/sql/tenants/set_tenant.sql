update batchproc.tenants
set weight = coalesce(%(weight)s, weight),
    max_running = case when %(unlimited)s then null else coalesce(%(max_running)s, max_running) end,
    paused = coalesce(%(paused)s, paused),
    settings = jsonb_strip_nulls(settings || %(settings)s::jsonb)
where slug = %(slug)s
returning tenant_id, slug, weight, max_running, paused, settings
