-- The jobs of the open revision's ranges that did not come to a good end, and the one that is to join them.
select j.job_id, j.state, r.revision_id, j.args -> 'range' as range,
       (select count(*) from batchproc.ocr_pages p
        where p.revision_id = r.revision_id and p.tenant_id = r.tenant_id and p.state <> 'started'
          and (jsonb_typeof(j.args -> 'range') <> 'array'
               or p.page between (j.args -> 'range' ->> 0)::int and (j.args -> 'range' ->> 1)::int)) as done
from batchproc.ocr_revisions r
join batchproc.processing_jobs j on j.range_of = r.revision_id and j.tenant_id = r.tenant_id
where r.document_id = %(document_id)s and r.state = 'open' and j.state <> 'completed'
order by j.job_id
