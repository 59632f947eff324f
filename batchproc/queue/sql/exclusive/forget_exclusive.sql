-- Of holders that were killed. A row that its holder renews at this moment is not waited for.
delete from batchproc.exclusive_runs
where holder in (select holder from batchproc.exclusive_runs
                 where lease_until < clock_timestamp() for update skip locked)
