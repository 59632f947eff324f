-- Of what was only read to be looked at, the newest stay. Whatever else there is, a pilot leaves alone.
delete from batchproc.ocr_revisions gone
using (
    select r.revision_id
    from batchproc.ocr_revisions r
    join batchproc.documents d using (tenant_id, document_id)
    where r.tenant_id = %(tenant_id)s and r.document_id = %(document_id)s and r.state = 'complete'
      and r.verdict = %(verdict)s and r.revision_id is distinct from d.current_revision
    order by r.revision_id desc
    offset %(retained)s
    limit %(limit)s
) old
where gone.revision_id = old.revision_id and gone.tenant_id = %(tenant_id)s
