-- For who completes a word on a command line: the newest ones. What is shown of an id is text, and not its order.
select r.run_id::text
from batchproc.runs r
where starts_with(r.run_id::text, %(prefix)s)
order by r.run_id desc
limit %(limit)s
