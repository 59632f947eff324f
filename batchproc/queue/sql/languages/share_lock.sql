select pg_advisory_xact_lock_shared(hashtextextended(%s, 0))
