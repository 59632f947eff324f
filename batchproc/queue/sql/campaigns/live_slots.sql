select coalesce(sum(slots), 0)::bigint from batchproc.nodes where lease_until > clock_timestamp()
