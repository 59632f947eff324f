insert into batchproc.kinds (kind, max_running) values (%s, %s) on conflict (kind) do nothing
