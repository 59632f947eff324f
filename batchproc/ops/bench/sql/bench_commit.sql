insert into batchproc.bench_commits (n) values (%s)
