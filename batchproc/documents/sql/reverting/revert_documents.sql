-- The documents' rows are locked. That somebody had chosen a revision by hand before stays written. As
-- make_current_again.sql does it: a document that failed although it has text failed for its original, which no other
-- text mends.
with given as (
    select g.document_id, g.tenant_id, r.revision_id, r.page_count,
           coalesce(r.failed_pages, (select count(*) from batchproc.ocr_pages p
                                     where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id
                                       and p.state = 'failed')) > 0 as partial
    from unnest(%(document_ids)s::bigint[], %(tenant_ids)s::bigint[], %(revision_ids)s::bigint[])
         as g(document_id, tenant_id, revision_id)
    join batchproc.ocr_revisions r
        on r.revision_id = g.revision_id and r.tenant_id = g.tenant_id and r.document_id = g.document_id
), marked as (
    update batchproc.ocr_revisions r
    set verdict = %(verdict)s, restored_at = clock_timestamp(), restored_by = %(restored_by)s
    from given g
    where r.revision_id = g.revision_id and r.tenant_id = g.tenant_id and r.source = 'engine'
      and r.verdict is distinct from %(restored)s
)
update batchproc.documents d
set current_revision = g.revision_id, page_count = g.page_count,
    status = case when d.status = 'failed' then d.status when g.partial then 'partial' else 'completed' end,
    failure_code = case when d.status = 'failed' then d.failure_code end
from given g
where d.document_id = g.document_id and d.tenant_id = g.tenant_id
returning d.document_id, d.tenant_id
