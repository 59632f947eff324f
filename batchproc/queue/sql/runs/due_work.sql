-- What count_due counts as waiting, as work by tenant, kind and mode. Pages as campaign_left counts them, so that the
-- same jobs are told to take the same time.
select j.tenant_id, j.kind, j.args ->> 'mode' as mode, count(*) as jobs,
       coalesce(sum(case when j.args ->> 'range' = 'join' then 0
                         when jsonb_typeof(j.args -> 'range') = 'array'
                             then (j.args -> 'range' ->> 1)::bigint - (j.args -> 'range' ->> 0)::bigint + 1
                         when j.args ->> 'pages' = 'failed'
                             then (select coalesce(r.failed_pages, (
                                       select count(*) from batchproc.ocr_pages p
                                       where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id
                                         and p.state = 'failed'))
                                   from batchproc.ocr_revisions r
                                   where r.revision_id = d.current_revision and r.tenant_id = d.tenant_id)
                         else d.page_count end), 0)::bigint as pages,
       count(*) filter (where d.page_count is null and j.document_id is not null and not j.args ? 'range'
                          and j.args ->> 'pages' is distinct from 'failed') as pages_unknown
from batchproc.processing_jobs j
left join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id
where j.state = 'available'
  and not exists (select from batchproc.tenants t where t.tenant_id = j.tenant_id and (t.paused or t.max_running = 0))
  and not exists (select from batchproc.kinds k
                  where k.kind = j.kind and (k.paused or coalesce(k.max_running, k.declared_limit) = 0))
  and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
  and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
  and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
group by j.tenant_id, j.kind, j.args ->> 'mode'
