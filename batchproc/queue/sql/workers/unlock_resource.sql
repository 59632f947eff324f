select pg_advisory_unlock(hashtextextended(%s, 0))
