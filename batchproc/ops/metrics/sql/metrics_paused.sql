select kind, coalesce(paused_code, 'by_hand') as code from batchproc.kinds where paused order by kind
