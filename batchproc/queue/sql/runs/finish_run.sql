update batchproc.runs set finished_at = clock_timestamp(), exit_code = %(exit_code)s, counts = %(counts)s
where run_id = %(run_id)s
