select pg_notify(%s, payload) from unnest(%s::text[]) as payload
