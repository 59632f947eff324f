-- By document, whatever the unique key: a job that was enqueued by hand has none, and what is held is in no index by its
-- key. The jobs of page ranges, and the one that joins them, are one reading; it waits no more once its revision is over.
select j.document_id, case when j.range_of is null then j.args else j.args || '{"range": "join"}' end
from batchproc.processing_jobs j
where j.document_id = any (%(document_ids)s) and j.kind = %(kind)s and j.state in ('scheduled', 'available', 'held')
  and (j.args -> 'pilot' is not distinct from 'true'::jsonb) = %(pilots)s
  and (j.range_of is null
       or exists (select from batchproc.ocr_revisions r
                  where r.revision_id = j.range_of and r.tenant_id = j.tenant_id and r.state = 'open'))
group by 1, 2
order by 1
