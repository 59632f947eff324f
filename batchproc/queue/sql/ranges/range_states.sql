select coalesce(bool_or(finished_at is null), false), count(*) > 0
from batchproc.processing_jobs
where range_of = %(revision_id)s and tenant_id = %(tenant_id)s
