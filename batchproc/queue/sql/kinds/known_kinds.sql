select distinct unnest(kinds) from batchproc.nodes where lease_until > clock_timestamp()
