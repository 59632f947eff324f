-- A range was read by other means than its revision names: as with pages that were taken over.
update batchproc.ocr_revisions
set kept_versions = array(select unnest(kept_versions) union select %(engine_version)s order by 1)
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and state = 'open'
  and %(engine_version)s <> all(coalesce(kept_versions, '{}'))
