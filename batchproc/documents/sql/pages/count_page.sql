insert into batchproc.usage_daily as u
    (tenant_id, day, kind, pages_text, pages_ocr, pages_blank, pages_failed, pages_timed, seconds_ocr)
values (%(tenant_id)s, (clock_timestamp() at time zone 'UTC')::date, 'ocr',
        (%(state)s = 'text')::int, (%(state)s = 'ocr')::int, (%(state)s = 'blank')::int, (%(state)s = 'failed')::int,
        (%(state)s = 'ocr')::int, case when %(state)s = 'ocr' then %(seconds)s::double precision else 0 end)
on conflict (tenant_id, day, kind) do update
set pages_text = u.pages_text + excluded.pages_text, pages_ocr = u.pages_ocr + excluded.pages_ocr,
    pages_blank = u.pages_blank + excluded.pages_blank, pages_failed = u.pages_failed + excluded.pages_failed,
    pages_timed = u.pages_timed + excluded.pages_timed, seconds_ocr = u.seconds_ocr + excluded.seconds_ocr
