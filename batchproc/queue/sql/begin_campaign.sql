insert into batchproc.campaigns (command) values (%s) returning campaign_id
