-- What operators see and steer: runs that exclude each other, campaigns, and what each slot is at.

-- So that `campaigns list` and the report need not read all jobs to find those of one campaign.
create index processing_jobs_of_campaign on batchproc.processing_jobs (campaign_id, state) where campaign_id is not null;
