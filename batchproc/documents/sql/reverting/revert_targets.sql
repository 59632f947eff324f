-- After the rows of the documents were locked: what is current cannot change any more. Where the campaign has read a
-- document more than once, the way leads back over all of its readings, to the first revision that is not its own.
with recursive back as (
    select d.document_id, d.tenant_id, r.revision_id as reverted, r.before_revision as target,
           r.source = 'person' or r.verdict = %(restored)s as by_person
    from batchproc.documents d
    join batchproc.ocr_revisions r on r.revision_id = d.current_revision and r.tenant_id = d.tenant_id
    where d.document_id = any (%(document_ids)s) and r.campaign_id = %(campaign_id)s
    union
    select b.document_id, b.tenant_id, b.reverted, r.before_revision, b.by_person
    from back b
    join batchproc.ocr_revisions r
        on r.revision_id = b.target and r.tenant_id = b.tenant_id and r.document_id = b.document_id
        and r.campaign_id = %(campaign_id)s and r.before_revision < r.revision_id
)
select b.document_id, b.tenant_id, b.reverted, b.by_person, b.target, t.revision_id is not null as is_there
from back b
left join batchproc.ocr_revisions t
    on t.revision_id = b.target and t.tenant_id = b.tenant_id and t.document_id = b.document_id and t.state = 'complete'
where t.revision_id is null or t.campaign_id is distinct from %(campaign_id)s
order by b.document_id
