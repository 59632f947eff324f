copy batchproc.processing_jobs
    (tenant_id, document_id, kind, lane, priority, state, run_at, args, unique_key, unique_while_running,
     max_attempts, campaign_id, run_id, languages)
from stdin
