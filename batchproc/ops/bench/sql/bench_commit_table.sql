-- In a bench's own schema, for the physical limit: what a commit costs here.
create table batchproc.bench_commits (n bigint not null)
