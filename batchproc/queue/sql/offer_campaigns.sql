-- For who completes a word on a command line: the newest ones.
select campaign_id::text from batchproc.campaigns
where starts_with(campaign_id::text, %(prefix)s)
order by campaign_id desc
limit %(limit)s
