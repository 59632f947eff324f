-- First the columns that many jobs of a batch share; copy_lines.py has the same order.
copy batchproc.processing_jobs
    (tenant_id, kind, lane, priority, state, unique_while_running, max_attempts, campaign_id, run_id,
     traceparent, document_id, run_at, args, unique_key, languages)
from stdin
