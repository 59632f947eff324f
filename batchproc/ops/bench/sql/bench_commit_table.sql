-- In a bench's own schema, for the physical limit: what a commit costs here.
create table if not exists batchproc.bench_commits (n bigint not null)
