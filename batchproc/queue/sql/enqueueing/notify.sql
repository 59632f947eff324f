select pg_notify(%s, %s)
