insert into batchproc.campaigns (command, kind, scope, documents)
values (%(command)s, %(kind)s, %(scope)s::jsonb, 0)
returning campaign_id
