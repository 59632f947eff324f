-- A page that its claim finished after all, in a commit that was still on its way, stays as it is.
update batchproc.ocr_pages p
set state = 'failed', text = '', words = 0, failure_code = %(failure_code)s, ended_at = clock_timestamp(),
    seconds = extract(epoch from clock_timestamp() - p.started_at)
from batchproc.ocr_revisions r
where p.revision_id = %(revision_id)s and p.tenant_id = %(tenant_id)s and p.page = %(page)s and p.state = 'started'
  and p.claim_id = %(claim_id)s
  and r.revision_id = p.revision_id and r.tenant_id = p.tenant_id and r.state = 'open'
