-- Never the current one, one that a person made, the open one, nor the one just completed or replaced. Of the others
-- those stay longest that have been current, and of them the newest; without a verdict it was, before verdicts.
-- Pages go with their revision. Few at a time: what is beyond the limit goes with the next.
delete from batchproc.ocr_revisions gone
using (
    (select r.revision_id
     from batchproc.ocr_revisions r
     join batchproc.documents d using (tenant_id, document_id)
     where r.tenant_id = %(tenant_id)s and r.document_id = %(document_id)s and r.state = 'complete'
       and r.source = 'engine' and r.revision_id is distinct from d.current_revision
     order by r.revision_id = any (%(fresh)s::bigint[]) desc,
              (r.verdict is null or r.verdict = any (%(was_current)s::text[])) desc,
              greatest(r.completed_at, r.restored_at) desc, r.revision_id desc
     offset %(retained)s)
    union all
    (select r.revision_id
     from batchproc.ocr_revisions r
     where r.tenant_id = %(tenant_id)s and r.document_id = %(document_id)s and r.state = 'abandoned'
       and r.revision_id < %(revision_id)s)
    order by revision_id
    limit %(limit)s
) old
where gone.revision_id = old.revision_id and gone.tenant_id = %(tenant_id)s
