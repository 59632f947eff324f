-- Each set of languages that some text in the archive was read in, with the language data it was read by.
select distinct languages, data_hash from batchproc.ocr_revisions where state = 'complete' and source = 'engine'
