select r.revision_id, r.state, r.source, r.engine, r.engine_version, r.languages, r.profile,
       r.revision_id is not distinct from d.current_revision as current
from batchproc.documents d
join batchproc.ocr_revisions r using (tenant_id, document_id)
where d.document_id = %(document_id)s
order by current desc, r.revision_id desc
limit 1
