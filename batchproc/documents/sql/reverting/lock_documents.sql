-- What somebody else is just completing or restoring is passed over.
select document_id from batchproc.documents
where document_id = any (%(document_ids)s)
order by document_id
for no key update skip locked
