-- Documents whose current revision is one that a campaign has read.
select r.document_id
from batchproc.ocr_revisions r
join batchproc.documents d
    on d.document_id = r.document_id and d.tenant_id = r.tenant_id and d.current_revision = r.revision_id
where r.campaign_id = %(campaign_id)s and r.document_id > %(after)s
order by r.document_id
limit %(limit)s
