update batchproc.ocr_pages
set state = %(state)s, text = %(text)s, confidence = %(confidence)s, words = %(words)s, rotation = %(rotation)s,
    dpi = %(dpi)s, seconds = %(seconds)s, failure_code = %(failure_code)s, skew = %(skew)s, dpi_estimated = %(dpi_estimated)s,
    languages = %(languages)s, engine_calls = %(engine_calls)s, ended_at = clock_timestamp()
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s and page = %(page)s and state = 'started'
