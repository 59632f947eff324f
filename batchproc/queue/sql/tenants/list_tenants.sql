select tenant_id, slug, weight, max_running, paused, settings
from batchproc.tenants
where tenant_id > %s
order by tenant_id
limit %s
