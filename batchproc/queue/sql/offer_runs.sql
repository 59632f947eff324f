-- For who completes a word on a command line: the newest ones.
select run_id::text from batchproc.runs where starts_with(run_id::text, %(prefix)s) order by run_id desc limit %(limit)s
