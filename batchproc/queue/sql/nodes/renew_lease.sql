-- Only a lease that still lives can be renewed: a node that missed it joins again under a new id.
update batchproc.nodes set lease_until = clock_timestamp() + make_interval(secs => %(lease)s)
where node_id = %(node_id)s and lease_until > clock_timestamp()
returning node_id
