delete from batchproc.nodes where node_id = %s
