-- For who completes a word on a command line.
select kind from batchproc.kinds where starts_with(kind, %(prefix)s) order by kind limit %(limit)s
