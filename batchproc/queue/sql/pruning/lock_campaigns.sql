-- The campaigns of some jobs, in the order in which all prunes lock them.
select from batchproc.campaigns
where campaign_id in (select campaign_id from batchproc.processing_jobs where job_id = any(%(job_ids)s))
order by campaign_id
for no key update
