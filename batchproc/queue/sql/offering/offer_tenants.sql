-- For who completes a word on a command line.
select slug from batchproc.tenants where starts_with(slug, %(prefix)s) order by slug limit %(limit)s
