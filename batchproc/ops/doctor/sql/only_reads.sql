-- Why nothing can be written, null when it can.
select case when pg_is_in_recovery() then 'it is a standby'
            when current_setting('transaction_read_only')::boolean then 'default_transaction_read_only is on' end
