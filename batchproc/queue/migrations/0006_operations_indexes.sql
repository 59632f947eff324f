-- The indexes of what 0005 brought, each built beside those who write to its table.

-- The jobs of a campaign that have come to an end; those that wait have indexes since 0002. One index over all
-- states would be written by each claim too: these cost a settle one entry, and each gives them by their ids.
create index concurrently if not exists processing_jobs_campaign_done
    on batchproc.processing_jobs (campaign_id, job_id)
    where campaign_id is not null and state = 'completed';
create index concurrently if not exists processing_jobs_campaign_failed
    on batchproc.processing_jobs (campaign_id, job_id)
    where campaign_id is not null and state in ('discarded', 'cancelled');

-- Attempts are added in the order of their ends, so that the ranges of whole blocks of the table are enough to find
-- those of a night, and a settle has next to nothing to write for it.
create index concurrently if not exists job_attempts_ended on batchproc.job_attempts
    using brin (ended_at timestamptz_minmax_multi_ops) with (pages_per_range = 32, autosummarize = on);

create index concurrently if not exists ocr_revisions_of_campaign on batchproc.ocr_revisions (campaign_id, document_id)
    where campaign_id is not null;
create index concurrently if not exists ocr_revisions_of_run on batchproc.ocr_revisions (run_id, document_id)
    where run_id is not null;

create index concurrently if not exists document_paths_unchanged
    on batchproc.document_paths (tenant_id, path_hash, changed_ns)
    where changed_ns is not null;
