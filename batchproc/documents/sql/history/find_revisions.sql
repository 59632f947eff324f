-- The current revision, and the complete one to compare it with: the newest before it, else the newest of all. What was
-- only read to be looked at is compared only when it is named.
select d.current_revision,
       (select r.revision_id
        from batchproc.ocr_revisions r
        where r.tenant_id = d.tenant_id and r.document_id = d.document_id and r.state = 'complete'
          and r.revision_id <> d.current_revision and r.verdict is distinct from 'pilot'
        order by r.revision_id < d.current_revision desc, r.revision_id desc
        limit 1) as before
from batchproc.documents d
where d.document_id = %(document_id)s and d.tenant_id = %(tenant_id)s
