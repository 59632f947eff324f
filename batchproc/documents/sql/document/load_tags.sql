select tag, rule, rule_version, reason, source
from batchproc.document_tags
where document_id = %(document_id)s and (%(tenant_id)s::bigint is null or tenant_id = %(tenant_id)s)
order by tag, source
