-- Pages may have been taken over from a revision that is pruned by now.
select engine_version from batchproc.ocr_revisions where state = 'complete' and source = 'engine'
union
select unnest(kept_versions) from batchproc.ocr_revisions where state = 'complete' and kept_versions is not null
