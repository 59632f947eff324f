-- What pages, revisions, languages and storage roots are remembered by.
-- What takes long on large tables comes first; the tables that are only altered are locked at the end, for a moment.

-- A storage root, or what is mounted below one, as it was when a file in it was last found to be what was imported: one
-- that is another now may be an empty mount point. A device's number holds for one machine until it is started again;
-- boot_id is the kernel's name for that time. The key is a hash: a path can be longer than an index entry may be.
create table batchproc.storage_roots (
    root       bytea not null,
    root_hash  bytea not null generated always as (sha256(root)) stored,
    boot_id    uuid not null,
    device     bigint not null,
    inode      bigint not null,
    filesystem bigint not null,
    marker     text check (length(marker) <= 200),
    known_at   timestamptz not null default clock_timestamp(),
    primary key (root_hash, boot_id)
);

-- A revision that is deleted is looked for as some document's current one.
create index documents_current on batchproc.documents (current_revision, tenant_id)
    where current_revision is not null;

-- The languages that a job asks for itself; without, its tenant's count, or those of the node's settings. A node
-- claims only what it has the languages for.
alter table batchproc.processing_jobs add column languages text[];

-- What the jobs that wait already ask for themselves. Those that ask for nothing stay untouched. Only kinds that
-- recognise text heed it.
update batchproc.processing_jobs j
set languages = asked.languages
from (select w.job_id, w.tenant_id,
             coalesce(
                 case when jsonb_typeof(w.args -> 'languages') = 'array'
                      then nullif(array(select jsonb_array_elements_text(w.args -> 'languages')), '{}') end,
                 string_to_array(d.language, '+')) as languages
      from batchproc.processing_jobs w
      left join batchproc.documents d
          on d.document_id = w.document_id and d.tenant_id = w.tenant_id and length(d.language) <= 500
      where w.state in ('available', 'scheduled', 'held') and (w.args ? 'languages' or w.document_id is not null)
        and length(w.args ->> 'languages') <= 500 is not false) asked
where j.job_id = asked.job_id and j.tenant_id = asked.tenant_id and asked.languages is not null;

-- For the few languages that the jobs which wait name themselves: does any node have them, and whose jobs are they?
create index processing_jobs_languages on batchproc.processing_jobs (kind, languages, tenant_id, lane, job_id)
    where state = 'available' and languages is not null;

-- For a run that takes up what waits for a storage since before it began.
create index processing_jobs_storage on batchproc.processing_jobs (tenant_id, claimed_at)
    where state = 'scheduled' and failure_code = 'storage_unavailable';

-- How a page was read: the degrees clockwise it was straightened by, whether the file named no credible resolution,
-- the languages where a detection chose them, and how often the engine was called. kept_from is the revision from
-- which a page was taken over as it was. claim_id is the claim that began a page last: what it had not finished when
-- its worker died is the page that killed it.
alter table batchproc.ocr_pages
    add column skew real,
    add column dpi_estimated boolean not null default false,
    add column languages text[],
    add column engine_calls smallint,
    add column kept_from bigint,
    add column claim_id uuid;

-- Sums over the pages, written when the revision is complete: confidence is the mean of the recognised words. One that
-- was completed before has none, and is counted when it is asked for. verdict says why it became current, or why not;
-- restored_at and restored_by when somebody last made it current again by hand, and who: the login name.
-- kept_versions are the versions of engines that pages were taken over from which other means had read; null: none.
alter table batchproc.ocr_revisions
    add column node_id uuid,
    add column seconds real,
    add column confidence real,
    add column words bigint,
    add column characters bigint,
    add column failed_pages integer,
    add column verdict text,
    add column restored_at timestamptz,
    add column restored_by text,
    add column kept_versions text[];

-- The languages of a node's settings: what it recognises in where neither the job nor its tenant says.
alter table batchproc.nodes add column default_languages text[] not null default '{}';
