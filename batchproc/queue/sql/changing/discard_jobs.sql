-- Jobs that wait, and that this transaction has locked, end without an attempt, for what stands in their results. As
-- settle.sql does with a discarded one, but that there is no attempt to tell of.
with given as (
    select * from unnest(%(job_ids)s::bigint[], %(tenant_ids)s::bigint[], %(results)s::jsonb[])
         as g(job_id, tenant_id, result)
), discarded as (
    update batchproc.processing_jobs j
    set state = 'discarded', failure_code = %(failure_code)s, result = g.result, run_id = %(run_id)s,
        finished_at = clock_timestamp()
    from given g
    where j.job_id = g.job_id and j.tenant_id = g.tenant_id and j.state in ('scheduled', 'available', 'held')
    returning j.job_id, j.tenant_id, j.kind, j.document_id, j.failure_code,
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
    set status = 'failed', failure_code = c.failure_code
    from discarded c
    where c.kind = any(%(failing_kinds)s) and not c.spares_document and d.document_id = c.document_id
      and d.tenant_id = c.tenant_id and d.status in ('pending', 'failed')
), unsignalled as (
    delete from batchproc.job_signals s using discarded c where s.job_id = c.job_id
)
select job_id from discarded
