-- After a COPY, which cannot look anything up: what the hints of the jobs' documents say.
with unsaid as (
    select j.job_id, j.tenant_id, string_to_array(d.language, '+') as languages
    from batchproc.processing_jobs j
    join batchproc.documents d on d.document_id = j.document_id and d.tenant_id = j.tenant_id
    where j.document_id = any(%(document_ids)s) and j.kind = any(%(kinds)s) and j.languages is null
      and j.state in ('available', 'scheduled', 'held') and length(d.language) <= 500
    order by j.job_id
    for no key update of j skip locked
)
update batchproc.processing_jobs j
set languages = u.languages
from unsaid u
where j.job_id = u.job_id and j.tenant_id = u.tenant_id
