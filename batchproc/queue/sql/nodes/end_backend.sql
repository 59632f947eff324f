-- Only a worker's own backend: a recycled process id may by now be anybody's.
select pg_terminate_backend(pid)
from pg_stat_activity
where (pid = any(%(pids)s) and application_name = %(application)s) or application_name = any(%(transactions)s)
