update batchproc.processing_jobs j
set state = 'available'
from (select job_id, tenant_id from batchproc.processing_jobs where state = 'scheduled'
      order by job_id desc limit %(limit)s) d
where j.job_id = d.job_id and j.tenant_id = d.tenant_id
