-- Of a page that was taken over, the seconds were spent elsewhere.
update batchproc.ocr_revisions r
set state = 'complete', completed_at = clock_timestamp(), node_id = %(node_id)s,
    campaign_id = %(campaign_id)s, run_id = %(run_id)s, pilot = %(pilot)s, seconds = p.seconds,
    confidence = p.confidence, words = p.words, characters = p.characters, failed_pages = p.failed_pages
from (select coalesce(sum(seconds) filter (where kept_from is null), 0) as seconds,
             sum(confidence * words) filter (where state = 'ocr')
                 / nullif(sum(words) filter (where state = 'ocr' and confidence is not null), 0) as confidence,
             coalesce(sum(words), 0) as words, coalesce(sum(length(text)), 0) as characters,
             count(*) filter (where state = 'failed') as failed_pages
      from batchproc.ocr_pages
      where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s) p
where r.revision_id = %(revision_id)s and r.tenant_id = %(tenant_id)s and r.document_id = %(document_id)s
  and r.state = 'open'
returning r.revision_id, r.engine, r.engine_version, r.data_hash, r.profile, r.confidence, r.words, r.characters,
          r.failed_pages, r.page_count, r.source = 'person' as by_person,
          r.kept_versions is not null as mixed
