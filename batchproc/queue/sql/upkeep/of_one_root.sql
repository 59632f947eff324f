-- Which of the next due jobs of a queue lie on the storage root that the documents of some jobs have; of several roots
-- none do. A document with a path below another root may be read from there: it neither lies there, nor tells of it.
with roots as (
    select array_agg(distinct d.root) as found
    from batchproc.processing_jobs j
    join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id
    where j.job_id = any(%(job_ids)s)
      and not exists (
          select from batchproc.document_paths p
          where p.tenant_id = d.tenant_id and p.document_id = d.document_id and p.root <> d.root)
), next as materialized (
    select j.priority, j.job_id, j.tenant_id, j.document_id
    from batchproc.processing_jobs j
    where j.state = 'available' and j.lane = %(lane)s and j.tenant_id = %(tenant_id)s and j.kind = %(kind)s
      and (j.priority, j.job_id) > (%(priority)s, %(job_id)s)
      and exists (select from roots where cardinality(found) = 1)
    order by j.priority, j.job_id
    limit %(limit)s
)
select n.priority, n.job_id,
       coalesce(d.root = (select found[1] from roots where cardinality(found) = 1), false)
           and n.job_id <> all(%(skip)s::bigint[])
           and not exists (
               select from batchproc.document_paths p
               where p.tenant_id = d.tenant_id and p.document_id = d.document_id and p.root <> d.root)
from next n
left join batchproc.documents d on d.document_id = n.document_id and d.tenant_id = n.tenant_id
order by n.priority, n.job_id
