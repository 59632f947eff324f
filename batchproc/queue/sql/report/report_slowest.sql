-- The documents that took most of the workers' time, over all of their jobs and attempts.
select t.slug as tenant, a.document_id, d.path, d.status, a.seconds, a.attempts, a.pages, a.failure_code
from (
    select tenant_id, document_id, sum(seconds) as seconds, count(*) as attempts, sum(pages) as pages,
           max(failure_code) filter (where became = 'discarded') as failure_code
    from report_attempts
    where document_id is not null
    group by tenant_id, document_id
    order by sum(seconds) desc, document_id
    limit %(limit)s
) a
join batchproc.tenants t using (tenant_id)
join batchproc.documents d using (document_id, tenant_id)
order by a.seconds desc, a.document_id
