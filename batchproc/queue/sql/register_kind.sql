-- The settings of the node that joined last are the limit that holds for all.
insert into batchproc.kinds (kind, max_running) values (%s, %s)
on conflict (kind) do update set max_running = excluded.max_running
where kinds.max_running is distinct from excluded.max_running
