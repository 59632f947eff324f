-- A row if the index is there but was not built to its end.
select i.indexrelid
from pg_index i
join pg_class c on c.oid = i.indexrelid
join pg_namespace n on n.oid = c.relnamespace
where n.nspname = %s and c.relname = %s and not i.indisvalid
