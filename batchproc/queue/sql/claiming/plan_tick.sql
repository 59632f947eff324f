-- For this transaction alone: what else its session runs would be planned badly so, and it also holds behind a pooler. Planning a tick takes longer than
-- running it, so its plans are kept; and a plan that was made while the tables were small must not read them whole
-- when they are large.
select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
       set_config('jit', 'off', true)
