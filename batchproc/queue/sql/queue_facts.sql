select t.weight, t.max_running is not null or exists (
           select from batchproc.kinds k where k.kind = %(kind)s and k.max_running is not null) as limited
from batchproc.tenants t
where t.tenant_id = %(tenant_id)s
