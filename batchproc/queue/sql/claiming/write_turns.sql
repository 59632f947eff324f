-- In the order of tenants, as every node does it. Of a tenant that is gone by now nothing is remembered.
insert into batchproc.tenant_turns as t (tenant_id, last_turn_at)
select w.tenant_id, clock_timestamp() - make_interval(secs => w.seconds_ago)
from unnest(%(tenant_ids)s::bigint[], %(seconds_ago)s::double precision[]) as w(tenant_id, seconds_ago)
join batchproc.tenants owner on owner.tenant_id = w.tenant_id
order by w.tenant_id
on conflict (tenant_id) do update set last_turn_at = excluded.last_turn_at
where excluded.last_turn_at > t.last_turn_at
