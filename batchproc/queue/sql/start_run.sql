insert into batchproc.runs (node_id, scope) values (%s, %s) returning run_id
