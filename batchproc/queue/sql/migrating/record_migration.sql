insert into batchproc.schema_migrations (version, name, min_code_version) values (%s, %s, %s)
