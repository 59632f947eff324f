update batchproc.documents set rules_version = %(rules_version)s
where document_id = %(document_id)s and tenant_id = %(tenant_id)s
  and rules_version is distinct from %(rules_version)s
