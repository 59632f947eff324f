-- Jobs that wait, locked to be given up on; what somebody holds at this moment, a job or the document that it fails, is
-- passed over, for a later look: an import locks many documents, in the order of its files.
with failing as materialized (
    select document_id
    from batchproc.documents
    where document_id = any(array(
        select j.document_id from batchproc.processing_jobs j
        where j.job_id = any(%(job_ids)s) and j.kind = any(%(failing_kinds)s) and j.document_id is not null
          and not batchproc.spares_document(j.range_of, j.args)))
    order by document_id
    for no key update skip locked
)
select job_id, tenant_id
from batchproc.processing_jobs
where job_id = any(%(job_ids)s) and state in ('scheduled', 'available', 'held')
  and (document_id is null or kind <> all(%(failing_kinds)s) or batchproc.spares_document(range_of, args)
       or document_id = any(array(select document_id from failing)))
order by job_id
for no key update skip locked
