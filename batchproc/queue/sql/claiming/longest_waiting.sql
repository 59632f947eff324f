select t.tenant_id
from batchproc.tenants t
left join batchproc.tenant_turns l on l.tenant_id = t.tenant_id
order by l.last_turn_at nulls first, t.tenant_id
