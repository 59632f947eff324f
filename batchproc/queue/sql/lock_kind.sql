-- "For update": register_kind.sql, with which a node makes the kind known, waits for it.
select from batchproc.kinds where kind = %(kind)s for update
