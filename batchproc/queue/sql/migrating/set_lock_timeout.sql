-- For this transaction alone.
select set_config('lock_timeout', %s, true)
