-- What pages, revisions, languages and storage roots are remembered by.

-- How a page was read: the degrees clockwise it was straightened by, whether the file named no credible resolution,
-- the languages where a detection chose them, and how often the engine was called. kept_from is the revision from
-- which a page was taken over as it was.
alter table batchproc.ocr_pages
    add column skew real,
    add column dpi_estimated boolean not null default false,
    add column languages text[],
    add column engine_calls smallint,
    add column kept_from bigint;

-- Sums over the pages, written when the revision is complete: confidence is the mean of the recognised words.
-- verdict says why it became current, or why not.
alter table batchproc.ocr_revisions
    add column node_id uuid,
    add column seconds real,
    add column confidence real,
    add column words bigint,
    add column characters bigint,
    add column failed_pages integer,
    add column verdict text;

update batchproc.ocr_revisions r
set seconds = p.seconds, confidence = p.confidence, words = p.words, characters = p.characters,
    failed_pages = p.failed_pages
from (select revision_id, sum(seconds) as seconds,
             sum(confidence * words) filter (where state = 'ocr') / nullif(sum(words) filter (where state = 'ocr'), 0)
                 as confidence,
             sum(words) as words, sum(length(text)) as characters, count(*) filter (where state = 'failed') as failed_pages
      from batchproc.ocr_pages
      group by revision_id) p
where p.revision_id = r.revision_id and r.state = 'complete';

-- The languages that a job asks for itself; without, its tenant's count, or those of the node's settings. A node
-- claims only what it has the languages for.
alter table batchproc.processing_jobs add column languages text[];

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

-- The claim that began a page last: what it had not finished when its worker died is the page that killed it.
alter table batchproc.ocr_pages add column claim_id uuid;

-- When somebody last made the revision current again by hand, and who: the login name.
alter table batchproc.ocr_revisions
    add column restored_at timestamptz,
    add column restored_by text;

-- A revision that is deleted is looked for as some document's current one.
create index documents_current on batchproc.documents (current_revision, tenant_id)
    where current_revision is not null;

-- What the jobs that wait already ask for themselves. Only kinds that recognise text heed it.
update batchproc.processing_jobs j
set languages = coalesce(
        case when jsonb_typeof(j.args -> 'languages') = 'array'
             then nullif(array(select jsonb_array_elements_text(j.args -> 'languages')), '{}') end,
        (select string_to_array(d.language, '+') from batchproc.documents d
         where d.document_id = j.document_id and d.tenant_id = j.tenant_id and length(d.language) <= 500))
where j.state in ('available', 'scheduled', 'held') and length(j.args ->> 'languages') <= 500 is not false
  and (j.args ? 'languages' or j.document_id is not null);

-- The languages of a node's settings: what it recognises in where neither the job nor its tenant says.
alter table batchproc.nodes add column default_languages text[] not null default '{}';

-- For the few languages that the jobs which wait name themselves: does any node have them?
create index processing_jobs_languages on batchproc.processing_jobs (kind, languages, job_id)
    where state = 'available' and languages is not null;

-- For a run that takes up what waits for a storage since before it began.
create index processing_jobs_storage on batchproc.processing_jobs (tenant_id, claimed_at)
    where state = 'scheduled' and failure_code = 'storage_unavailable';
