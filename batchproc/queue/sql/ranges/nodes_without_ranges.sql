select node_id from batchproc.nodes
where lease_until > clock_timestamp() and not reads_ranges and %(kind)s = any(kinds)
limit 1
