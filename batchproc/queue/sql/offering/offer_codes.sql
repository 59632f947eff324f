-- For who completes a word on a command line: of the jobs that the newest runs gave up on, or have yet to try again. An
-- index has those alone, by their run.
select distinct failure_code from (
    select failure_code from batchproc.processing_jobs
    where run_id is not null and state in ('scheduled', 'discarded')
    order by run_id desc
    limit 1000
) as newest
where starts_with(failure_code, %(prefix)s)
order by failure_code
limit %(limit)s
