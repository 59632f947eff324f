update batchproc.ocr_revisions
set verdict = %(verdict)s, before_revision = %(before_revision)s, before_confidence = %(before_confidence)s,
    before_failed = %(before_failed)s, before_words = %(before_words)s, comparable = %(comparable)s,
    words_gained = %(words_gained)s, words_lost = %(words_lost)s
where revision_id = %(revision_id)s and tenant_id = %(tenant_id)s
