-- Of a campaign or of a run: the other is null, and its part finds nothing. In the order of the fields of Reading.
-- Per document what there was before its first reading of the campaign or run, and what its last one left. What was
-- gained and lost is summed up: a later reading was compared with the one before it.
select r.document_id, r.tenant_id, t.slug as tenant, d.path,
       (array_agg(r.before_revision order by r.revision_id))[1] as before_revision,
       (array_agg(r.before_confidence order by r.revision_id))[1] as before_confidence,
       (array_agg(r.before_failed order by r.revision_id))[1] as before_failed,
       coalesce((array_agg(r.before_words order by r.revision_id))[1], 0) as before_words,
       bool_and(coalesce(r.comparable, false)) as comparable,
       max(r.revision_id) as revision_id,
       (array_agg(r.confidence order by r.revision_id desc))[1] as confidence,
       (array_agg(r.failed_pages order by r.revision_id desc))[1] as failed_pages,
       (array_agg(r.page_count order by r.revision_id desc))[1] as page_count,
       (array_agg(r.verdict order by r.revision_id desc))[1] as verdict,
       bool_or(r.revision_id is not distinct from d.current_revision) as current,
       coalesce(sum(r.seconds), 0)::double precision as seconds,
       coalesce(sum(r.words_gained), 0)::bigint as words_gained,
       coalesce(sum(r.words_lost), 0)::bigint as words_lost
from (
    select * from batchproc.ocr_revisions c
    where c.campaign_id = %(campaign_id)s::bigint and c.document_id > %(after)s and c.state = 'complete'
      and c.document_id <= coalesce((
          select o.document_id from batchproc.ocr_revisions o
          where o.campaign_id = %(campaign_id)s::bigint and o.document_id > %(after)s
          order by o.document_id
          offset %(limit)s limit 1), 9223372036854775807)
    union all
    select * from batchproc.ocr_revisions c
    where c.run_id = %(run_id)s::bigint and c.document_id > %(after)s and c.state = 'complete'
      and c.document_id <= coalesce((
          select o.document_id from batchproc.ocr_revisions o
          where o.run_id = %(run_id)s::bigint and o.document_id > %(after)s
          order by o.document_id
          offset %(limit)s limit 1), 9223372036854775807)
) r
join batchproc.documents d on d.document_id = r.document_id and d.tenant_id = r.tenant_id
join batchproc.tenants t on t.tenant_id = r.tenant_id
group by r.document_id, r.tenant_id, t.slug, d.path
order by r.document_id
