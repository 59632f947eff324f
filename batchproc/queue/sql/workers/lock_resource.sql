select pg_try_advisory_lock(hashtextextended(%s, 0))
