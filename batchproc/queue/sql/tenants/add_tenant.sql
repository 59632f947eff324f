insert into batchproc.tenants (slug) values (%s)
on conflict (slug) do nothing
returning tenant_id, slug, weight, max_running, paused, settings
