-- What operators see and steer: runs that exclude each other, campaigns, and what each slot is at.
-- The tables that are written all the time are altered first: until they are free nothing else is locked. What takes
-- long on large tables is left to 0006. The nodes, whose leases must not wait, come last.

-- The same names of kinds as before, said so that it takes a tenth of the time: every update of a job checks it again,
-- and "{0,62}" makes an automaton of sixty states. Not validated, which would read the whole table under this lock:
-- every row there has met the check before it, which was the same.
alter table batchproc.processing_jobs
    drop constraint processing_jobs_kind_check,
    add constraint processing_jobs_kind_check check (kind ~ '^[a-z][a-z0-9_]*$' and length(kind) <= 63) not valid;

-- The span of whoever enqueued a job (W3C Trace Context), for tracing; the jobs that follow it belong to it too. So
-- does the one that joins ranges: the function is that of 0004 but for this.
alter table batchproc.processing_jobs add column traceparent text;
create or replace function batchproc.count_range() returns trigger language plpgsql as $$
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
             campaign_id, run_id, languages, range_of, traceparent)
        values (new.tenant_id, new.document_id, new.kind, new.lane, 1, joining, new.args || '{"range": "join"}', null,
                false, new.max_attempts, new.campaign_id, new.run_id, new.languages, new.range_of,
                new.traceparent);
        if joining = 'available' then
            -- As hints.py writes it; the channel is called like the schema.
            perform pg_notify(tg_table_schema, json_build_array(new.lane, new.tenant_id, new.kind, 1)::text);
        end if;
    end if;
    return null;
end
$$;

-- Whether its job was given up on with it, which somebody may take back later: a report tells what was. Null of an
-- attempt that a node of an older release wrote.
alter table batchproc.job_attempts add column gave_up boolean;

-- How long recognising takes, apart from text layers, which take next to no time: seconds_ocr are those of pages_timed
-- pages. The pages_ocr of before, and those that nodes of older releases read, are not among these.
alter table batchproc.usage_daily
    add column pages_timed bigint not null default 0,
    add column seconds_ocr double precision not null default 0;

-- By which taxonomy rules a document was classified last: a digest of all that hold for its tenant.
alter table batchproc.documents add column rules_version text;

-- What a reading made of the text before it, written when it is complete: by which campaign and run, which revision was
-- current, with which confidence, words and failed pages, whether both were read by one engine and data, so that their
-- confidences can be compared, and how many words it gained and lost. Kept apart from the jobs, which are pruned.
-- A pilot is read to be looked at, and does not become current.
alter table batchproc.ocr_revisions
    add column pilot boolean not null default false,
    add column campaign_id bigint,
    add column run_id bigint,
    add column before_revision bigint,
    add column before_confidence real,
    add column before_failed integer,
    add column before_words bigint,
    add column comparable boolean,
    add column words_gained bigint,
    add column words_lost bigint;

-- How a file was when an import had read it: its size, and when its content and its inode last changed, in nanoseconds
-- since 1970 by the clock of its storage. One that still is so need not be read again when the import is repeated.
-- Null: imported before this was remembered, or changed so shortly before that a later change might show the same
-- times.
alter table batchproc.document_paths
    add column bytes bigint, add column modified_ns bigint, add column changed_ns bigint;

-- What a report of a run reads. How many jobs its node could work on at a time; null of a run from before.
alter table batchproc.runs add column slots integer check (slots >= 1);

-- Campaigns: the kind of their jobs, whose documents were chosen (as of runs.scope), how many got a job, when the
-- command that made it had gone through all of them (null: it still does, or was cut short), and when it was cancelled
-- (cancelling: some of its jobs have not come to their end yet, and whichever node runs goes on with it). What prunes
-- have deleted of its jobs stays counted, by how they ended, and the documents of which with that the last cancelled job
-- went.
alter table batchproc.campaigns
    add column kind text,
    add column scope jsonb not null default '{}',
    add column documents bigint,
    add column filled_at timestamptz,
    add column cancelled_at timestamptz,
    add column cancelling boolean not null default false,
    add column pruned_completed bigint not null default 0,
    add column pruned_discarded bigint not null default 0,
    add column pruned_cancelled bigint not null default 0,
    add column pruned_documents_cancelled bigint not null default 0;
create index campaigns_cancelling on batchproc.campaigns (campaign_id) where cancelling;

-- The jobs of campaigns, in parts that have an index each: one over all states would be written by every claim. Those
-- that run are as many as there are slots.
create view batchproc.campaign_jobs_left as
select campaign_id, job_id, tenant_id, document_id, kind, state, failure_code, finished_at, args
from batchproc.processing_jobs where campaign_id is not null and state in ('scheduled', 'available')
union all
select campaign_id, job_id, tenant_id, document_id, kind, state, failure_code, finished_at, args
from batchproc.processing_jobs where campaign_id is not null and state = 'held'
union all
select campaign_id, job_id, tenant_id, document_id, kind, state, failure_code, finished_at, args
from batchproc.processing_jobs where campaign_id is not null and state = 'running';
create view batchproc.campaign_jobs as
select campaign_id, job_id, tenant_id, document_id, kind, state, failure_code, finished_at, args
from batchproc.campaign_jobs_left
union all
select campaign_id, job_id, tenant_id, document_id, kind, state, failure_code, finished_at, args
from batchproc.processing_jobs where campaign_id is not null and state = 'completed'
union all
select campaign_id, job_id, tenant_id, document_id, kind, state, failure_code, finished_at, args
from batchproc.processing_jobs where campaign_id is not null and state in ('discarded', 'cancelled');

-- Whether a job that is given up on leaves its document as it is: a range, as the job that joins them tells the
-- document, and a pilot, of which nothing comes.
create function batchproc.spares_document(range_of bigint, args jsonb) returns boolean immutable language sql as $$
    select range_of is not null and args ->> 'range' is distinct from 'join'
           or args -> 'pilot' is not distinct from 'true'::jsonb
$$;

-- Runs that are to be the only one of their scope (as of runs.scope), each for as long as it renews its lease.
create table batchproc.exclusive_runs (
    holder      uuid primary key,
    run_id      bigint,
    host        text not null,
    pid         integer not null,
    scope       jsonb not null,
    since       timestamptz not null default clock_timestamp(),
    lease_until timestamptz not null
);

-- What the slots of the nodes are at, written by each node every few seconds while it works, for those who look: over
-- the same rows again and again, in place. A slot that has never had a job has no row. The job is named without a key,
-- as it may be pruned, and is looked up together with its claim.
create table batchproc.node_slots (
    node_id        uuid not null references batchproc.nodes on delete cascade,
    slot           integer not null,
    job_id         bigint,
    claim_id       uuid,
    worker_pid     integer,
    begun_at       timestamptz,
    resident_bytes bigint,
    written_at     timestamptz not null default clock_timestamp(),
    primary key (node_id, slot)
) with (
    fillfactor = 50, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- How fast each node works, written along with its slots. The rate is over the last minute; null before it has seen one.
create table batchproc.node_activity (
    node_id         uuid primary key references batchproc.nodes on delete cascade,
    run_id          bigint not null,
    ended           bigint not null,
    jobs_per_minute real,
    written_at      timestamptz not null default clock_timestamp()
) with (
    fillfactor = 50, autovacuum_vacuum_cost_delay = 0,
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);

-- What a run's scope (runs.scope) makes of it, said once for all who ask. Single: of one job alone, which somebody
-- looks at.
create function batchproc.run_is_single(scope jsonb) returns boolean immutable language sql as $$
    select scope ?| array['single', 'in_process']
$$;
-- Whether it is a night that was for all of what is asked about, a scope as well, where empty and missing parts mean
-- all. Runs of one job, and those of a pilot, are no nights, whatever they were for.
create function batchproc.run_covers(scope jsonb, asked jsonb) returns boolean immutable language sql as $$
    select not scope ?| array['single', 'in_process', 'pilot'] and not exists (
        select from unnest(array['tenant_ids', 'kinds', 'lanes']) part
        where jsonb_array_length(coalesce(scope -> part, '[]')) > 0
          and not (jsonb_array_length(coalesce(asked -> part, '[]')) > 0 and scope -> part @> (asked -> part)))
$$;
