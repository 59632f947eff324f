-- The first schema. Every row of a tenant carries tenant_id, and foreign keys are composite with it:
-- the database itself refuses a job of one tenant on a document of another.

create table batchproc.schema_migrations (
    version          integer primary key,
    name             text not null,
    min_code_version integer not null,
    applied_at       timestamptz not null default clock_timestamp()
);

create table batchproc.tenants (
    tenant_id   bigint generated always as identity primary key,
    slug        text not null unique check (slug ~ '^[a-z0-9][a-z0-9_-]{0,62}$'),
    weight      real not null default 1 check (weight > 0 and weight <= 1000),
    max_running integer check (max_running >= 0),
    paused      boolean not null default false,
    settings    jsonb not null default '{}' check (jsonb_typeof(settings) = 'object'),
    created_at  timestamptz not null default clock_timestamp()
);

create table batchproc.kinds (
    kind        text primary key check (kind ~ '^[a-z][a-z0-9_]{0,62}$'),
    paused      boolean not null default false,
    max_running integer check (max_running >= 0)
);

create table batchproc.nodes (
    node_id        uuid primary key,
    lease_until    timestamptz not null,
    started_at     timestamptz not null default clock_timestamp(),
    host           text not null,
    pid            integer not null,
    slots          integer not null,
    kinds          text[] not null,
    languages      text[] not null,
    engine_version text not null default '',
    code_version   text not null
);

create table batchproc.campaigns (
    campaign_id bigint generated always as identity primary key,
    command     text not null,
    paused      boolean not null default false,
    created_at  timestamptz not null default clock_timestamp()
);

create table batchproc.runs (
    run_id      bigint generated always as identity primary key,
    node_id     uuid not null,
    scope       jsonb not null default '{}',
    started_at  timestamptz not null default clock_timestamp(),
    finished_at timestamptz,
    exit_code   smallint,
    counts      jsonb
);

create table batchproc.documents (
    document_id      bigint generated always as identity,
    tenant_id        bigint not null references batchproc.tenants,
    external_id      text check (length(external_id) <= 500),
    root             bytea not null,
    path             bytea not null,
    sha256           bytea not null check (length(sha256) = 32),
    bytes            bigint not null check (bytes >= 0),
    media_type       text,
    page_count       integer,
    language         text,
    title            text,
    title_source     text,
    status           text not null default 'pending' check (status in ('pending', 'completed', 'partial', 'failed')),
    failure_code     text,
    flags            text[] not null default '{}',
    fields           jsonb not null default '{}' check (jsonb_typeof(fields) = 'object'),
    current_revision bigint,
    verified_at      timestamptz,
    created_at       timestamptz not null default clock_timestamp(),
    primary key (document_id, tenant_id),
    unique (tenant_id, sha256),
    unique (tenant_id, external_id)
);
create index documents_listing on batchproc.documents (tenant_id, document_id);

-- Every path under which a document was imported; a duplicate adds a path, not a document. Its key is a hash:
-- a path can be longer than an index entry may be.
create table batchproc.document_paths (
    tenant_id   bigint not null,
    document_id bigint not null,
    root        bytea not null,
    path        bytea not null,
    path_hash   bytea not null generated always as (sha256(root || '\x00'::bytea || path)) stored,
    created_at  timestamptz not null default clock_timestamp(),
    primary key (tenant_id, document_id, path_hash),
    foreign key (document_id, tenant_id) references batchproc.documents on delete cascade
);

create table batchproc.document_tags (
    tenant_id    bigint not null,
    document_id  bigint not null,
    tag          text not null,
    source       text not null check (source in ('rule', 'workflow', 'person')),
    rule         text,
    rule_version text,
    reason       text,
    created_at   timestamptz not null default clock_timestamp(),
    primary key (tenant_id, document_id, tag, source),
    foreign key (document_id, tenant_id) references batchproc.documents on delete cascade
);

-- job_id and claim_id name the attempt that works or worked on the revision; jobs are pruned, so no foreign keys.
create table batchproc.ocr_revisions (
    revision_id    bigint generated always as identity,
    tenant_id      bigint not null,
    document_id    bigint not null,
    state          text not null default 'open' check (state in ('open', 'complete', 'abandoned')),
    source         text not null default 'engine' check (source in ('engine', 'person')),
    engine         text not null,
    engine_version text not null,
    data_hash      text not null,
    profile        jsonb not null,
    languages      text[] not null,
    source_sha256  bytea not null,
    page_count     integer not null check (page_count >= 0),
    job_id         bigint,
    claim_id       uuid,
    created_at     timestamptz not null default clock_timestamp(),
    completed_at   timestamptz,
    primary key (revision_id, tenant_id),
    foreign key (document_id, tenant_id) references batchproc.documents on delete cascade
);
create unique index ocr_revisions_open on batchproc.ocr_revisions (tenant_id, document_id) where state = 'open';
create index ocr_revisions_document on batchproc.ocr_revisions (tenant_id, document_id, revision_id);

alter table batchproc.documents
    add foreign key (current_revision, tenant_id) references batchproc.ocr_revisions (revision_id, tenant_id);

-- starts counts the attempts that began the page; an attempt that was interrupted and comes back counts once.
create table batchproc.ocr_pages (
    revision_id  bigint not null,
    tenant_id    bigint not null,
    page         integer not null check (page >= 1),
    state        text not null check (state in ('started', 'text', 'ocr', 'blank', 'failed')),
    starts       smallint not null default 1,
    job_id       bigint not null,
    attempt      smallint not null,
    text         text,
    confidence   real,
    words        integer,
    rotation     smallint,
    dpi          integer,
    seconds      real,
    failure_code text,
    started_at   timestamptz not null default clock_timestamp(),
    ended_at     timestamptz,
    primary key (revision_id, page),
    foreign key (revision_id, tenant_id) references batchproc.ocr_revisions on delete cascade
);

-- The hot table. The primary key leads with job_id, which the identity alone makes unique, so that one
-- index serves the look-up by id and the composite foreign keys.
create table batchproc.processing_jobs (
    job_id       bigint generated always as identity,
    tenant_id    bigint not null references batchproc.tenants,
    document_id  bigint,
    kind         text not null check (kind ~ '^[a-z][a-z0-9_]{0,62}$'),
    lane         smallint not null default 1 check (lane in (0, 1)),
    priority     smallint not null default 5 check (priority between 1 and 9),
    state        text not null check (state in
                 ('scheduled', 'available', 'running', 'held', 'completed', 'discarded', 'cancelled')),
    run_at       timestamptz not null default clock_timestamp(),
    args         jsonb not null default '{}' check (jsonb_typeof(args) = 'object'),
    unique_key   text check (length(unique_key) <= 200),
    unique_while_running boolean not null default false,
    attempt      smallint not null default 0,
    max_attempts smallint not null check (max_attempts between 1 and 1000),
    crashes      smallint not null default 0,
    timeouts     smallint not null default 0,
    node_losses  smallint not null default 0,
    claim_id     uuid,
    node_id      uuid,
    result       jsonb,
    failure_code text,
    campaign_id  bigint references batchproc.campaigns,
    run_id       bigint references batchproc.runs,
    created_at   timestamptz not null default clock_timestamp(),
    claimed_at   timestamptz,
    finished_at  timestamptz,
    primary key (job_id, tenant_id),
    foreign key (document_id, tenant_id) references batchproc.documents,
    check ((state = 'running') = (claim_id is not null)),
    check ((state = 'running') = (node_id is not null)),
    check ((state in ('completed', 'discarded', 'cancelled')) = (finished_at is not null))
) with (
    fillfactor = 70,
    autovacuum_vacuum_scale_factor = 0.01,
    autovacuum_vacuum_insert_scale_factor = 0.05,
    autovacuum_analyze_scale_factor = 0.02,
    autovacuum_vacuum_cost_delay = 0
);
create index processing_jobs_claim on batchproc.processing_jobs (lane, tenant_id, kind, priority, job_id)
    where state = 'available';
create index processing_jobs_promote on batchproc.processing_jobs (tenant_id, run_at) where state = 'scheduled';
create index processing_jobs_running_node on batchproc.processing_jobs (node_id) where state = 'running';
create index processing_jobs_running_kind on batchproc.processing_jobs (tenant_id, kind) where state = 'running';
create unique index processing_jobs_unique on batchproc.processing_jobs (tenant_id, kind, unique_key)
    where state in ('scheduled', 'available') and unique_key is not null;
create unique index processing_jobs_unique_running on batchproc.processing_jobs (tenant_id, kind, unique_key)
    where state in ('scheduled', 'available', 'running') and unique_key is not null and unique_while_running;
-- For the end of a run: its retries that are still to come, and what it gave up on.
create index processing_jobs_run on batchproc.processing_jobs (run_id)
    where run_id is not null and state in ('scheduled', 'discarded');
create index processing_jobs_document on batchproc.processing_jobs (document_id) where document_id is not null;

-- Progress and cancel requests, apart from the job row that a handler's transaction may hold locked.
create table batchproc.job_signals (
    job_id              bigint primary key,
    tenant_id           bigint not null,
    done                integer,
    total               integer,
    cancel_requested_at timestamptz,
    updated_at          timestamptz not null default clock_timestamp(),
    foreign key (job_id, tenant_id) references batchproc.processing_jobs on delete cascade
);

create table batchproc.job_attempts (
    claim_id     uuid primary key,
    job_id       bigint not null,
    tenant_id    bigint not null,
    number       smallint not null,
    node_id      uuid not null,
    run_id       bigint,
    worker_pid   integer,
    started_at   timestamptz not null,
    ended_at     timestamptz not null,
    seconds      real not null,
    outcome      text not null check (outcome in ('completed', 'snoozed', 'cancelled', 'failed', 'interrupted')),
    error_class  text,
    failure_code text,
    error_type   text,
    detail       text check (length(detail) <= 2000),
    foreign key (job_id, tenant_id) references batchproc.processing_jobs on delete cascade
);
create index job_attempts_job on batchproc.job_attempts (job_id);

create table batchproc.usage_daily (
    tenant_id      bigint not null references batchproc.tenants,
    day            date not null,
    kind           text not null,
    attempts       bigint not null default 0,
    worker_seconds double precision not null default 0,
    completed      bigint not null default 0,
    discarded      bigint not null default 0,
    pages_text     bigint not null default 0,
    pages_ocr      bigint not null default 0,
    pages_blank    bigint not null default 0,
    pages_failed   bigint not null default 0,
    primary key (tenant_id, day, kind)
) with (fillfactor = 50);
