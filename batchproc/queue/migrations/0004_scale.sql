-- Fairness, limits and page ranges for archives of many tenants.

-- When a node last claimed for the tenant: the next run begins with those that waited longest. Apart from the tenants,
-- whose rows each claim reads: it is written every 5 s, and after an hour of that under an old snapshot it took 5 ms to
-- read 64 of the rows, where it had taken 0.2.
create table batchproc.tenant_turns (
    tenant_id    bigint primary key references batchproc.tenants on delete cascade,
    last_turn_at timestamptz not null
) with (fillfactor = 50);

-- A token bucket: ``rate`` jobs a second on average, ``burst`` at once; ``tokens`` as they were at ``refilled_at``.
alter table batchproc.kinds
    add column rate double precision check (rate > 0),
    add column burst integer check (burst >= 1),
    add column tokens double precision,
    add column refilled_at timestamptz;

-- The jobs of the page ranges of a revision that have not come to a final state yet; null where it is not split.
alter table batchproc.ocr_revisions add column ranges_left integer check (ranges_left >= 0);
alter table batchproc.processing_jobs add column range_of bigint;

-- Runs are forgotten when their time has come, as nodes are: a job only remembers which run claimed it last. With the
-- key, each claim would look its run up and lock it, and each forgotten run would have all jobs read for its number.
alter table batchproc.processing_jobs drop constraint processing_jobs_run_id_fkey;

-- Whether anything is due at all, asked by every node at every poll, must not cost a look at each tenant.
create index processing_jobs_due on batchproc.processing_jobs (run_at, job_id) where state = 'scheduled';

-- What each hot table needs of autovacuum; docs/scale.md has the reasons.
-- A vacuum that shortens a table's file locks everybody out of the table meanwhile, and the file soon grows again.
alter table batchproc.processing_jobs set (vacuum_truncate = off);

-- Written once and deleted by a prune, in the order of its age. Nobody waits for a vacuum of it, so that it may rest
-- as the server has it, but it comes before a prune has left a fifth of the table dead.
alter table batchproc.job_attempts set (
    vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.05, autovacuum_analyze_scale_factor = 0.05);

-- A row or none per running job, written over while it runs and deleted when it ends: a share of such a small table is
-- nothing, a thousand dead rows are many times what lives.
alter table batchproc.job_signals set (
    fillfactor = 50, vacuum_truncate = off, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Rows that are updated over and over in place: free room on each page keeps them there, without new index entries, and
-- the pages clean themselves. What an old snapshot kept from that is to be vacuumed soon, since each settle reads it.
alter table batchproc.usage_daily set (
    autovacuum_vacuum_cost_delay = 0, autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_threshold = 1000);
alter table batchproc.nodes set (
    fillfactor = 50, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
alter table batchproc.tenants set (fillfactor = 70);
alter table batchproc.kinds set (fillfactor = 50);

-- Page ranges. A revision's findings are what the split learnt of the original: the joining job opens no file.
alter table batchproc.ocr_revisions add column findings jsonb;

-- Nodes of before do not know what a range is, and would discard it. While one of them lives nothing is split.
alter table batchproc.nodes add column reads_ranges boolean not null default false;

-- The ranges of a revision and their joining job.
create index processing_jobs_ranges on batchproc.processing_jobs (range_of) where range_of is not null;

-- Every way in which a range comes to a final state, or back from it, counts: settles, cancels, given up languages,
-- retries. The revision's row makes those who count at the same time follow one another, so that one of them is the
-- last. The last one enqueues the joining job, ahead of what else waits in its queue: it takes no time, and a document
-- that is read should not wait for others to be read. No one joins what somebody has cancelled: as with a document
-- that was cancelled in one piece, the revision stays open and the document keeps the text that it has.
create function batchproc.count_range() returns trigger language plpgsql as $$
declare
    left_over integer;
    joining text := 'available';
begin
    if new.finished_at is null then
        update batchproc.ocr_revisions set ranges_left = ranges_left + 1
        where revision_id = new.range_of and tenant_id = new.tenant_id and state = 'open' and ranges_left is not null;
        return null;
    end if;
    update batchproc.ocr_revisions set ranges_left = ranges_left - 1
    where revision_id = new.range_of and tenant_id = new.tenant_id and state = 'open' and ranges_left > 0
    returning ranges_left into left_over;
    -- The join has no unique key, which somebody else's job may have: the revision's lock makes it the only one.
    if left_over = 0 and not exists (
        select from batchproc.processing_jobs j
        where j.range_of = new.range_of and j.tenant_id = new.tenant_id
          and case when j.args ->> 'range' = 'join' then j.state in ('scheduled', 'available', 'held')
                   else j.state = 'cancelled' end
    ) then
        if exists (select from batchproc.campaigns c where c.campaign_id = new.campaign_id and c.paused) then
            joining := 'held';
        end if;
        insert into batchproc.processing_jobs
            (tenant_id, document_id, kind, lane, priority, state, args, unique_key, unique_while_running, max_attempts,
             campaign_id, run_id, languages, range_of)
        values (new.tenant_id, new.document_id, new.kind, new.lane, 1, joining, new.args || '{"range": "join"}', null,
                false, new.max_attempts, new.campaign_id, new.run_id, new.languages, new.range_of);
        if joining = 'available' then
            -- As hints.py writes it; the channel is called like the schema.
            perform pg_notify(tg_table_schema, json_build_array(new.lane, new.tenant_id, new.kind, 1)::text);
        end if;
    end if;
    return null;
end
$$;
create trigger processing_jobs_count_range after update on batchproc.processing_jobs for each row
    when (new.range_of is not null and (old.finished_at is null) <> (new.finished_at is null)
          and new.args ->> 'range' is distinct from 'join')
    execute function batchproc.count_range();

-- What handlers and settings declare. A person's rate goes before it, together with that person's burst.
alter table batchproc.kinds
    add column declared_rate double precision check (declared_rate > 0),
    add column declared_burst integer check (declared_burst >= 1);
