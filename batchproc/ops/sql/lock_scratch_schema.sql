-- Held by a session of the schema's process for as long as it lives.
select pg_try_advisory_lock(hashtextextended(%s, 0))
