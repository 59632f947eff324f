select number, node_id, worker_pid, started_at, ended_at, seconds, outcome, error_class, failure_code, error_type, detail
from batchproc.job_attempts
where job_id = %s
order by ended_at, number
