select pg_advisory_xact_lock(hashtextextended(%s, 0))
