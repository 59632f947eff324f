-- TICK_SETTINGS of node_store.py for one transaction of a session that does not have them.
select set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true),
       set_config('jit', 'off', true)
