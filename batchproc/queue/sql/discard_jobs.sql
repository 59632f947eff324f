-- Jobs that wait are given up on at somebody's wish, without an attempt; what somebody holds at this moment, it or the
-- document that it fails, is passed over, for a later look: an import locks many documents, in the order of its files.
-- As discard_missing.sql does it, but that no run has done it: none is to tell of it.
with failing as materialized (
    select document_id
    from batchproc.documents
    where document_id = any(array(
        select j.document_id from batchproc.processing_jobs j
        where j.job_id = any(%(job_ids)s) and j.kind = any(%(failing_kinds)s) and j.document_id is not null
          and not batchproc.spares_document(j.range_of, j.args)))
    order by document_id
    for no key update skip locked
), locked as (
    select job_id, tenant_id
    from batchproc.processing_jobs
    where job_id = any(%(job_ids)s) and state in ('scheduled', 'available', 'held')
      and (document_id is null or kind <> all(%(failing_kinds)s) or batchproc.spares_document(range_of, args)
           or document_id = any(array(select document_id from failing)))
    order by job_id
    for no key update skip locked
), discarded as (
    update batchproc.processing_jobs j
    set state = 'discarded', failure_code = 'given_up', result = %(result)s::jsonb, run_id = null,
        finished_at = clock_timestamp()
    from unnest(array(select job_id from locked), array(select tenant_id from locked)) as l(job_id, tenant_id)
    where j.job_id = l.job_id and j.tenant_id = l.tenant_id
    returning j.job_id, j.tenant_id, j.kind, j.document_id,
              batchproc.spares_document(j.range_of, j.args) as spares_document
), used as (
    insert into batchproc.usage_daily as u (tenant_id, day, kind, discarded)
    select tenant_id, (clock_timestamp() at time zone 'UTC')::date, kind, count(*)
    from discarded
    group by tenant_id, kind
    order by tenant_id, kind
    on conflict (tenant_id, day, kind) do update set discarded = u.discarded + excluded.discarded
), failed_documents as (
    update batchproc.documents d
    set status = 'failed', failure_code = 'given_up'
    from discarded c
    where c.kind = any(%(failing_kinds)s) and not c.spares_document and d.document_id = c.document_id
      and d.tenant_id = c.tenant_id and d.status in ('pending', 'failed')
), unsignalled as (
    delete from batchproc.job_signals s using discarded c where s.job_id = c.job_id
)
select job_id from discarded
