-- A limit and a rate that a handler or the settings declare are stored, for all nodes; a node without one leaves what is
-- stored. What a person has set is in max_running and rate, and goes before it.
-- A row that is as it should be is not touched, so that nobody who joins waits for somebody who holds it locked.
insert into batchproc.kinds (kind, declared_limit, declared_rate, declared_burst)
select %(kind)s::text, %(limit)s::int, %(rate)s::float8, %(burst)s::int
where not exists (
    select from batchproc.kinds k
    where k.kind = %(kind)s
      and (%(limit)s::int is null or k.declared_limit is not distinct from %(limit)s::int)
      and (%(rate)s::float8 is null
           or (k.declared_rate, k.declared_burst) is not distinct from (%(rate)s::float8, %(burst)s::int)))
on conflict (kind) do update
set declared_limit = coalesce(excluded.declared_limit, kinds.declared_limit),
    declared_rate = coalesce(excluded.declared_rate, kinds.declared_rate),
    declared_burst = case when excluded.declared_rate is null then kinds.declared_burst
                          else excluded.declared_burst end
where excluded.declared_limit is not null and kinds.declared_limit is distinct from excluded.declared_limit
   or excluded.declared_rate is not null
      and (kinds.declared_rate, kinds.declared_burst)
          is distinct from (excluded.declared_rate, excluded.declared_burst)
