-- Also one that has ended, as long as nobody has taken its place.
update batchproc.exclusive_runs
set lease_until = clock_timestamp() + make_interval(secs => %(lease)s), run_id = %(run_id)s
where holder = %(holder)s
returning holder
