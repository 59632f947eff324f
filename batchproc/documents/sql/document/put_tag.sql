insert into batchproc.document_tags (tenant_id, document_id, tag, source, rule, rule_version, reason)
values (%(tenant_id)s, %(document_id)s, %(tag)s, %(source)s, %(rule)s, %(rule_version)s, %(reason)s)
on conflict (tenant_id, document_id, tag, source) do update
set rule = excluded.rule, rule_version = excluded.rule_version, reason = excluded.reason,
    created_at = clock_timestamp()
where (document_tags.rule, document_tags.rule_version, document_tags.reason)
      is distinct from (excluded.rule, excluded.rule_version, excluded.reason)
