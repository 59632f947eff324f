insert into batchproc.exclusive_runs (holder, host, pid, scope, lease_until)
values (%(holder)s, %(host)s, %(pid)s, %(scope)s, clock_timestamp() + make_interval(secs => %(lease)s))
on conflict (holder) do update set lease_until = excluded.lease_until
