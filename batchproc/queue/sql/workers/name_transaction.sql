-- For this transaction alone.
select set_config('application_name', %s, true)
