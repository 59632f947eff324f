-- Until the transaction's end; a statement of its own, so that the next one sees what was written under it before.
select pg_advisory_xact_lock(hashtextextended(%s, 0))
