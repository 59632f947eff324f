select distinct engine_version from batchproc.ocr_revisions where state = 'complete' and source = 'engine'
