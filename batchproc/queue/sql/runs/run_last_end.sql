-- When the last attempt of a run ended, of those that ended between these times. Of a run that said when it ended, what
-- others ended for it afterwards counts not: they know no seconds of it.
select max(ended_at)
from batchproc.job_attempts
where run_id = %(run_id)s and ended_at between %(since)s and %(until)s and (seconds > 0 or not %(timed)s)
