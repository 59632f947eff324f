-- What is paused already keeps its reason, a person's above all.
update batchproc.kinds
set paused = true, paused_code = %(code)s, paused_reason = %(reason)s, paused_at = clock_timestamp()
where kind = %(kind)s and not paused
