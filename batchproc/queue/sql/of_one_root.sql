-- What is due in a queue and lies on the storage root that the documents of all these jobs have; of several roots nothing.
with roots as (
    select array_agg(distinct d.root) as found
    from batchproc.processing_jobs j
    join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id
    where j.job_id = any(%(job_ids)s)
)
select j.job_id
from batchproc.processing_jobs j
join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id
where j.state = 'available' and j.lane = %(lane)s and j.tenant_id = %(tenant_id)s and j.kind = %(kind)s
  and j.job_id <> all(%(skip)s::bigint[])
  and d.root = (select found[1] from roots where cardinality(found) = 1)
order by j.priority, j.job_id
limit %(limit)s
