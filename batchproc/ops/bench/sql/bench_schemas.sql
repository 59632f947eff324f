-- Of all benches in this database, living ones and such as were killed. Their names are random: nobody else's look so.
select nspname from pg_catalog.pg_namespace where nspname ~ '^batchproc_bench_[0-9a-f]{12}$' order by nspname
