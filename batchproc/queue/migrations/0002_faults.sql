-- What cancelling, holding, pruning and the brake need.

-- Why and since when a kind is paused. The code is what a brake found; a kind that a person paused has none.
alter table batchproc.kinds
    add column paused_code text, add column paused_reason text, add column paused_at timestamptz;

-- max_running is a person's limit and goes before the one that handlers and settings declare.
alter table batchproc.kinds add column declared_limit integer check (declared_limit >= 0);
-- Until now only they could set one.
update batchproc.kinds set declared_limit = max_running, max_running = null;

-- The jobs of a campaign that a pause holds, and those that its end releases.
create index processing_jobs_campaign on batchproc.processing_jobs (campaign_id, job_id)
    where campaign_id is not null and state in ('scheduled', 'available');
create index processing_jobs_held on batchproc.processing_jobs (campaign_id, job_id)
    where campaign_id is not null and state = 'held';
create index campaigns_paused on batchproc.campaigns (campaign_id) where paused;

-- Cancel requests that nobody has honoured yet; few at any time.
create index job_signals_cancel on batchproc.job_signals (job_id) where cancel_requested_at is not null;

-- What a prune takes, oldest first.
create index processing_jobs_finished on batchproc.processing_jobs (finished_at, job_id)
    where state in ('completed', 'discarded', 'cancelled');
