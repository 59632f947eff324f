-- Of one purpose in this database, of living processes and of such as were killed. Their names are random: nobody
-- else's look so.
select nspname
from pg_catalog.pg_namespace
where nspname ~ ('^batchproc_' || %s || '_[0-9a-f]{12}$')
order by nspname
