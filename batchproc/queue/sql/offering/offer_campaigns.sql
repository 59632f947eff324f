-- For who completes a word on a command line: the newest ones. As in offer_runs.sql.
select c.campaign_id::text
from batchproc.campaigns c
where starts_with(c.campaign_id::text, %(prefix)s)
order by c.campaign_id desc
limit %(limit)s
