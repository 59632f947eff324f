-- What runs on nodes that live, job by job: its pages as campaign_left counts them, how far it is by what it told in
-- this attempt, where it did, and for how long it has been running.
select j.tenant_id, j.kind, j.args ->> 'mode' as mode,
       coalesce(case when j.args ->> 'range' = 'join' then 0
                     when jsonb_typeof(j.args -> 'range') = 'array'
                         then (j.args -> 'range' ->> 1)::bigint - (j.args -> 'range' ->> 0)::bigint + 1
                     when j.args ->> 'pages' = 'failed'
                         then (select coalesce(r.failed_pages, (
                                   select count(*) from batchproc.ocr_pages p
                                   where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id
                                     and p.state = 'failed'))
                               from batchproc.ocr_revisions r
                               where r.revision_id = d.current_revision and r.tenant_id = d.tenant_id)
                     else d.page_count end, 0)::bigint as pages,
       (d.page_count is null and j.document_id is not null and not j.args ? 'range'
          and j.args ->> 'pages' is distinct from 'failed')::int as pages_unknown,
       g.done, g.total, greatest(0, extract(epoch from clock_timestamp() - j.claimed_at))::float8 as seconds
from batchproc.nodes n
join batchproc.processing_jobs j on j.node_id = n.node_id and j.state = 'running'
left join batchproc.job_signals g on g.job_id = j.job_id and g.updated_at >= j.claimed_at and g.total > 0
left join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id
where n.lease_until > clock_timestamp()
  and (cardinality(%(tenant_ids)s::bigint[]) = 0 or j.tenant_id = any(%(tenant_ids)s))
  and (cardinality(%(kinds)s::text[]) = 0 or j.kind = any(%(kinds)s))
  and (cardinality(%(lanes)s::smallint[]) = 0 or j.lane = any(%(lanes)s))
