-- For this session, until they are reset: to wait for locks for so long, and for a statement as long as it takes.
select set_config('lock_timeout', %s, false), set_config('statement_timeout', '0', false)
