select tenant_id, slug, weight, max_running, paused, settings from batchproc.tenants where slug = %s
