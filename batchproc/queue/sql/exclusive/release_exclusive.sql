delete from batchproc.exclusive_runs where holder = %s
