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

-- A storage root as it was when its files were last found to be what was imported: a root that is another now may be
-- an empty mount point. Its key is a hash: a path can be longer than an index entry may be.
create table batchproc.storage_roots (
    root       bytea not null,
    root_hash  bytea primary key generated always as (sha256(root)) stored,
    device     bigint not null,
    inode      bigint not null,
    marker     text check (length(marker) <= 200),
    known_at   timestamptz not null default clock_timestamp()
);
