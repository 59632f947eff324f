-- A limit that a handler or the settings declare is stored, for all nodes; a node without one leaves what is stored. A
-- limit that a person has set is in max_running and goes before it.
-- A row that is as it should be is not touched, so that nobody who joins waits for somebody who holds it locked.
insert into batchproc.kinds (kind, declared_limit)
select %(kind)s::text, %(limit)s::int
where not exists (
    select from batchproc.kinds k
    where k.kind = %(kind)s and (%(limit)s::int is null or k.declared_limit is not distinct from %(limit)s::int))
on conflict (kind) do update set declared_limit = excluded.declared_limit
where excluded.declared_limit is not null and kinds.declared_limit is distinct from excluded.declared_limit
