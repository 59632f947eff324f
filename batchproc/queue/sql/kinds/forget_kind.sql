-- A kind that no job is of, not one that is over either, and that no node that lives knows.
delete from batchproc.kinds k
where k.kind = %(kind)s
  and not exists (select from batchproc.processing_jobs j where j.kind = k.kind)
  and not exists (select from batchproc.nodes n where n.lease_until > clock_timestamp() and k.kind = any(n.kinds))
returning k.kind
