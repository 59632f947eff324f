-- How many connections this role may have to this database at most, and how many more the server can take now.
-- A superuser may use the reserved ones, and is above the limit of a role. A limit below 0 is none.
with me as (
    select r.rolsuper, r.rolconnlimit, d.datconnlimit
    from pg_roles r, pg_database d
    where r.rolname = current_user and d.datname = current_database()
), server as (
    select current_setting('max_connections')::int
           - case when rolsuper then 0
                  -- The second came with PostgreSQL 16.
                  else current_setting('superuser_reserved_connections')::int
                       + coalesce(current_setting('reserved_connections', true)::int, 0) end as most
    from me
)
select least(s.most, case when not m.rolsuper and m.rolconnlimit >= 0 then m.rolconnlimit end,
             case when not m.rolsuper and m.datconnlimit >= 0 then m.datconnlimit end),
       s.most - (select count(*) from pg_stat_activity
                 where backend_type = 'client backend' and pid <> pg_backend_pid())::int
from me m, server s
