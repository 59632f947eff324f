-- Attempts that failed, and whose jobs came back.
select kind, failure_code, count(*) as attempts, sum(seconds) as seconds
from report_attempts
where outcome = 'failed' and became = 'again' and failure_code is not null
group by kind, failure_code
order by count(*) desc, kind, failure_code
limit %(limit)s
