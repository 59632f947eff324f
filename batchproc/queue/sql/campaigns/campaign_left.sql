-- What is left of a campaign, by tenant, kind and mode: jobs, and of documents whose pages are known these, of the others
-- how many there are. Of a document that is read in ranges each job has its own pages, and the joining one none. Failed
-- pages are those that select_documents counts, by which the jobs were estimated before.
select j.tenant_id, j.kind, j.args ->> 'mode' as mode, count(*) as jobs,
       coalesce(sum(case when j.args ->> 'range' = 'join' then 0
                         when jsonb_typeof(j.args -> 'range') = 'array'
                             then (j.args -> 'range' ->> 1)::bigint - (j.args -> 'range' ->> 0)::bigint + 1
                         when j.args ->> 'pages' = 'failed'
                             then coalesce(r.failed_pages, (
                                 select count(*) from batchproc.ocr_pages p
                                 where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id
                                   and p.state = 'failed'))
                         else d.page_count end), 0)::bigint as pages,
       count(*) filter (where d.page_count is null and j.document_id is not null and not j.args ? 'range'
                          and j.args ->> 'pages' is distinct from 'failed') as pages_unknown
from batchproc.campaign_jobs_left j
left join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id
left join batchproc.ocr_revisions r on r.revision_id = d.current_revision and r.tenant_id = d.tenant_id
where j.campaign_id = %(campaign_id)s
group by j.tenant_id, j.kind, j.args ->> 'mode'
