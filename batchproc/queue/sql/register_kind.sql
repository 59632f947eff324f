-- A limit of the settings is stored, for all nodes; settings without one leave what is stored.
insert into batchproc.kinds (kind, max_running) values (%s, %s)
on conflict (kind) do update set max_running = excluded.max_running
where excluded.max_running is not null and kinds.max_running is distinct from excluded.max_running
