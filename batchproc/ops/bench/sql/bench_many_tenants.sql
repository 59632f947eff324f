insert into batchproc.tenants (slug)
select 'bench-' || n from generate_series(1, %(tenants)s::int) n
returning tenant_id
