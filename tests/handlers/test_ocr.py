"""The ``ocr`` handler on real files, a real database and the real engine; only faults are made up."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from PIL import Image, ImageDraw, ImageFont
from pydantic import ValidationError

from batchproc.core.outcome import FollowUp
from batchproc.database import connect
from batchproc.documents.listing import DocumentListing, ListedPage
from batchproc.handlers import ocr_reading
from batchproc.handlers.args import validated_args
from batchproc.handlers.context import Context
from batchproc.handlers.errors import ClaimLost, Failure, Snooze, StorageUnavailable
from batchproc.handlers.ocr import OcrResult, ocr
from batchproc.handlers.ocr_options import OcrArgs, asks_otherwise, page_options
from batchproc.handlers.registry import declared
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.page_text import PREPARATION, PageOptions
from batchproc.queue.claims import ClaimFence
from batchproc.settings import Settings
from tests.handlers.running_job import (
    Conn,
    RecordingSink,
    add_document,
    add_tenant,
    add_text,
    claim_again,
    end_job,
    running_job,
)

SETTINGS = Settings.model_validate({"ocr": {"languages": ["eng"]}})
FONT = ImageFont.load_default(48)


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture
def tenant(connection: Conn) -> int:
    return add_tenant(connection)


def page(text: str, width: int = 700) -> Image.Image:
    drawn = Image.new("L", (width, 200), 255)
    ImageDraw.Draw(drawn).text((40, 60), text, font=FONT, fill=0)
    return drawn


def tiff(folder: Path, *pages: Image.Image) -> Path:
    file = folder / "scan.tif"
    pages[0].save(file, save_all=True, append_images=pages[1:], dpi=(300, 300))
    return file


WORDS = ("alpha", "bravo", "charlie")


@pytest.fixture
def three_pages(tmp_path: Path) -> Path:
    return tiff(tmp_path, *(page(f"This is {word}") for word in WORDS))


class Job:
    """Runs the handler for one document, attempt by attempt."""

    def __init__(self, connection: Conn, tenant: int, file: Path, workdir: Path, **args: Any) -> None:
        self.connection = connection
        self.url = connection.info.dsn
        self.tenant = tenant
        self.document_id = add_document(connection, tenant, file)
        self.args = OcrArgs(document_id=self.document_id, **args)
        self.workdir = workdir
        self.ctx = self.claim()

    def claim(self, sink: RecordingSink | None = None, settings: Settings = SETTINGS) -> Context:
        self.ctx = running_job(
            self.connection,
            self.workdir,
            kind="ocr",
            tenant_id=self.tenant,
            document_id=self.document_id,
            settings=settings,
            sink=sink,
        )
        return self.ctx

    def again(self, attempt: int, sink: RecordingSink | None = None) -> Context:
        self.ctx = claim_again(self.connection, self.ctx, attempt=attempt, sink=sink)
        return self.ctx

    def run(self) -> OcrResult:
        result = ocr(self.ctx, self.args)
        assert isinstance(result, OcrResult)
        return result

    def fails(self) -> Failure:
        with pytest.raises(Failure) as caught:
            self.run()
        return caught.value

    def text(self) -> list[str]:
        return [text.strip() for text in self.ctx.documents.text(self.connection, self.document_id)]

    def state(self) -> tuple[str, str | None]:
        found = self.ctx.documents.load(self.connection, self.document_id)
        return found.status, found.failure_code

    def pages(self) -> list[ListedPage]:
        listing = DocumentListing("batchproc")
        revision = listing.revision(self.connection, self.document_id)
        return listing.pages(self.connection, revision.revision_id) if revision else []

    def revisions(self) -> list[str]:
        rows = self.connection.execute("select state from batchproc.ocr_revisions order by revision_id")
        return [row[0] for row in rows]


@pytest.fixture
def job(connection: Conn, tenant: int, three_pages: Path, tmp_path: Path) -> Job:
    return Job(connection, tenant, three_pages, tmp_path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pages (from 1) that are really read, in order."""
    numbers: list[int] = []
    before_each_page(monkeypatch, numbers.append)
    return numbers


def before_each_page(monkeypatch: pytest.MonkeyPatch, call: Callable[[int], object]) -> None:
    """Calls ``call`` with the page's number before each page is read."""
    real = vars(ocr_reading)["open_source"]  # perhaps wrapped already

    def opened(*args: Any, **more: Any) -> Any:
        source = real(*args, **more)
        get = source.page

        def get_page(index: int) -> Any:
            call(index + 1)
            return get(index)

        monkeypatch.setattr(source, "page", get_page)
        return source

    monkeypatch.setattr(ocr_reading, "open_source", opened)


def fault_on(monkeypatch: pytest.MonkeyPatch, number: int, *, times: int) -> None:
    """Makes the first ``times`` readings of a page end in an unknown exception, as a crash of the worker would."""
    left = [times]

    def maybe(page_number: int) -> None:
        if page_number == number and left[0]:
            left[0] -= 1
            raise RuntimeError("made up")

    before_each_page(monkeypatch, maybe)


def test_a_scan_becomes_the_current_text_page_by_page(job: Job) -> None:
    sink = RecordingSink()
    job.claim(sink)
    job.args = OcrArgs(document_id=job.document_id, trigger="upload")
    result = job.run()
    assert job.text() == [f"This is {word}" for word in WORDS]
    assert job.state() == ("completed", None)
    assert (result.pages, result.ocr_pages, result.words, result.failed_pages, result.partial) == (3, 3, 9, [], False)
    assert job.ctx.follow_ups == [FollowUp("classify", {"trigger": "upload"}, job.document_id)]
    document = job.ctx.documents.load(job.connection, job.document_id)
    assert (document.media_type, document.page_count, document.current_revision) == (
        "image/tiff",
        3,
        result.revision_id,
    )
    assert [(found.page, found.state, found.words, found.rotation) for found in job.pages()] == [
        (number, "ocr", 3, 0) for number in (1, 2, 3)
    ]
    assert all(found.confidence and found.confidence > 80 and found.seconds for found in job.pages())
    assert sink.checkpoints == 3
    assert [step for step in sink.steps if step[1] == 3] == [(0, 3), (1, 3), (2, 3), (3, 3)]
    used = job.connection.execute("select kind, pages_ocr, pages_failed from batchproc.usage_daily").fetchall()
    assert used == [("ocr", 3, 0)]


def test_a_page_that_cannot_be_read_leaves_the_others(connection: Conn, tenant: int, tmp_path: Path) -> None:
    file = tiff(tmp_path, page("This is alpha"), page("too wide", 1600), page("This is charlie"))
    job = Job(connection, tenant, file, tmp_path)
    job.claim(settings=Settings.model_validate({"ocr": {"languages": ["eng"], "bounds": {"max_pixels": 200_000}}}))
    result = job.run()
    assert [(found.page, found.code) for found in result.failed_pages] == [(2, "too_large")]
    assert result.partial
    assert job.state() == ("partial", None)
    assert job.text() == ["This is alpha", "", "This is charlie"]
    assert [(found.state, found.failure_code) for found in job.pages()][1] == ("failed", "too_large")


def test_a_document_without_a_readable_page_fails(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(number: int) -> None:
        raise OcrFailure("unreadable_file", f"page {number} is damaged")

    before_each_page(monkeypatch, unreadable)
    failure = job.fails()
    assert (failure.code, failure.retry) == ("unreadable_file", False)
    assert failure.detail == "page 1 is damaged"
    assert job.state() == ("failed", "unreadable_file")
    assert job.revisions() == ["abandoned"]
    assert job.ctx.follow_ups == []


def test_an_attempt_goes_on_where_the_one_before_ended(
    job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault_on(monkeypatch, 2, times=1)
    with pytest.raises(RuntimeError, match="made up"):
        job.run()
    assert job.state() == ("pending", None)
    assert [found.state for found in job.pages()] == ["ocr", "started"]
    sink = RecordingSink()
    job.again(2, sink)
    assert job.run().ocr_pages == 3
    assert read == [1, 2, 3]
    assert job.text() == [f"This is {word}" for word in WORDS]
    assert (1, 3) in sink.steps
    assert job.revisions() == ["complete"]


def test_a_page_that_ends_two_attempts_is_skipped(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    fault_on(monkeypatch, 2, times=100)
    for attempt in (1, 2):
        job.again(attempt)
        with pytest.raises(RuntimeError):
            job.run()
    job.again(3)
    result = job.run()
    assert [(found.page, found.code) for found in result.failed_pages] == [(2, "page_failed")]
    assert job.text() == ["This is alpha", "", "This is charlie"]
    assert job.state() == ("partial", None)


def test_an_interrupted_attempt_does_not_count_against_its_page(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    fault_on(monkeypatch, 2, times=3)
    for _ in range(3):
        job.again(1)
        with pytest.raises(RuntimeError):
            job.run()
    job.again(1)
    assert job.run().failed_pages == []


def test_a_page_that_ended_one_attempt_is_not_given_up_for_an_interruption(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    fault_on(monkeypatch, 2, times=3)
    for attempt in (1, 2, 2):  # the first one crashed, the second was interrupted, and comes back as the second
        job.again(attempt)
        with pytest.raises(RuntimeError):
            job.run()
    job.again(2)
    assert job.run().failed_pages == []


def test_an_attempt_counts_for_its_page_also_after_a_checkpoint(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which sets the job's attempts back, so that the next attempt has the number of this one."""
    fault_on(monkeypatch, 2, times=2)
    for _ in range(2):
        job.again(2)
        with pytest.raises(RuntimeError):
            job.run()
    [[starts]] = job.connection.execute("select starts from batchproc.ocr_pages where page = 2").fetchall()
    assert starts == 2


def test_a_page_is_known_to_be_begun_before_it_is_read(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []
    with connect(job.url) as other:

        def look(number: int) -> None:
            rows = other.execute("select state from batchproc.ocr_pages order by page").fetchall()
            seen.append([row[0] for row in rows])

        before_each_page(monkeypatch, look)
        job.run()
    assert seen == [["started"], ["ocr", "started"], ["ocr", "ocr", "started"]]


def fail_pages(job: Job, monkeypatch: pytest.MonkeyPatch, *numbers: int) -> None:
    """From now on reading these pages fails by name."""

    def unreadable(number: int) -> None:
        if number in numbers:
            raise OcrFailure("unreadable_file", f"page {number} is damaged")

    before_each_page(monkeypatch, unreadable)


def again_failed_pages(job: Job, state: str = "completed") -> Job:
    """A new job on the same document, for its failed pages."""
    end_job(job.connection, job.ctx, state)
    job.args = OcrArgs(document_id=job.document_id, pages="failed")
    job.claim()
    return job


def test_only_failed_pages_are_read_again_and_the_others_kept(
    job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        fail_pages(job, broken, 2)
        first = job.run()
    read.clear()
    second = again_failed_pages(job).run()
    assert read == [2]
    assert (second.pages, second.ocr_pages, second.failed_pages, second.partial) == (3, 3, [], False)
    assert second.revision_id != first.revision_id
    assert job.text() == [f"This is {word}" for word in WORDS]
    assert job.state() == ("completed", None)
    kept = job.connection.execute(
        "select page, kept_from from batchproc.ocr_pages where revision_id = %s", [second.revision_id]
    )
    assert sorted(kept.fetchall()) == [(1, first.revision_id), (2, None), (3, first.revision_id)]


def test_failed_pages_that_fail_again_leave_the_revision_that_is_there(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[int] = []
    fail_pages(job, monkeypatch, 2)
    before_each_page(monkeypatch, read.append)
    first = job.run()
    read.clear()
    second = again_failed_pages(job).run()
    assert second == first
    assert read == [2]
    assert job.state() == ("partial", None)
    assert job.ctx.documents.load(job.connection, job.document_id).current_revision == first.revision_id
    assert job.revisions() == ["complete", "abandoned"]


def test_without_failed_pages_there_is_nothing_to_read_again(job: Job, read: list[int]) -> None:
    first = job.run()
    read.clear()
    assert again_failed_pages(job).run() == first
    assert (read, job.revisions()) == ([], ["complete"])


def test_without_a_revision_the_failed_pages_are_all_pages(job: Job, read: list[int]) -> None:
    job.args = OcrArgs(document_id=job.document_id, pages="failed")
    assert job.run().ocr_pages == 3
    assert read == [1, 2, 3]


def test_a_killed_reading_of_failed_pages_goes_on_with_those_it_kept(
    job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        fail_pages(job, broken, 1, 2)
        job.run()
    read.clear()
    again_failed_pages(job)
    with monkeypatch.context() as broken:
        fault_on(broken, 2, times=1)
        with pytest.raises(RuntimeError):
            job.run()
    job.again(2)
    assert job.run().failed_pages == []
    assert read == [1, 2]
    assert job.text() == [f"This is {word}" for word in WORDS]


def leave_failed_pages_to_an_older_engine(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Page 2 fails, its revision is an older engine's, and the job that reads page 2 again is cancelled over it."""
    with monkeypatch.context() as broken:
        fail_pages(job, broken, 2)
        job.run()
    job.connection.execute("update batchproc.ocr_revisions set engine_version = '1.0'")
    again_failed_pages(job)
    with monkeypatch.context() as broken:
        fault_on(broken, 2, times=1)
        with pytest.raises(RuntimeError):
            job.run()


def kept_from(job: Job, revision_id: int) -> list[int | None]:
    rows = job.connection.execute(
        "select kept_from from batchproc.ocr_pages where revision_id = %s order by page", [revision_id]
    )
    return [row[0] for row in rows]


def test_reading_all_pages_goes_on_with_none_that_another_job_kept(
    job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_failed_pages_to_an_older_engine(job, monkeypatch)
    end_job(job.connection, job.ctx, "cancelled")
    read.clear()
    job.args = OcrArgs(document_id=job.document_id)
    job.claim()
    found = job.run()
    assert read == [1, 2, 3]
    assert kept_from(job, found.revision_id) == [None, None, None]
    assert job.revisions() == ["complete", "complete"], "the one that was left open is pruned"


def test_failed_pages_go_on_only_with_pages_of_the_revision_that_is_current(
    job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_failed_pages_to_an_older_engine(job, monkeypatch)
    other = add_text(job.connection, job.ctx.tenant_id, job.document_id, ["one", "", "three"])
    job.connection.execute(
        "update batchproc.ocr_pages set state = 'failed', failure_code = 'stalled' where revision_id = %s and page = 2",
        [other],
    )
    job.connection.execute(
        """
        update batchproc.ocr_revisions set source_sha256 = d.sha256 from batchproc.documents d where revision_id = %s
        """,
        [other],
    )
    read.clear()
    again_failed_pages(job, "cancelled")
    found = job.run()
    assert read == [2]
    assert kept_from(job, found.revision_id) == [other, None, other]


def test_a_budget_used_up_on_one_page_is_fresh_for_the_next(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    fault_on(monkeypatch, 3, times=1)
    job.connection.execute("update batchproc.processing_jobs set crashes = 3, attempt = 4")
    with pytest.raises(RuntimeError):
        job.run()
    counts = job.connection.execute("select attempt, crashes from batchproc.processing_jobs").fetchone()
    assert counts == (1, 1)


def test_a_stopping_node_gets_its_worker_back_after_the_page(job: Job, read: list[int]) -> None:
    job.claim(RecordingSink(stop_after=2))
    with pytest.raises(Snooze) as caught:
        job.run()
    assert caught.value.seconds == 0
    assert job.state() == ("pending", None)
    job.again(1)
    assert job.run().pages == 3
    assert read == [1, 2, 3]


def test_other_languages_start_a_new_revision(job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fault_on(monkeypatch, 2, times=1)
    with pytest.raises(RuntimeError):
        job.run()
    job.args = OcrArgs(document_id=job.document_id, languages=("deu",))
    job.again(2)
    assert job.run().ocr_pages == 3
    assert read == [1, 1, 2, 3]
    assert job.revisions() == ["complete"], "the abandoned one goes when a newer one is complete"


@pytest.mark.parametrize(
    ("tenant_says", "settings_say"),
    [({"mode": "force"}, {}), ({"languages": ["deu"]}, {}), ({}, {"dpi": 150, "orientation": False})],
    ids=["mode", "languages", "settings"],
)
def test_a_job_goes_on_with_the_options_that_it_began_with(
    job: Job,
    read: list[int],
    monkeypatch: pytest.MonkeyPatch,
    tenant_says: dict[str, Any],
    settings_say: dict[str, Any],
) -> None:
    """Whatever tenant or settings have come to say between two attempts: what was read is not read again."""
    fault_on(monkeypatch, 2, times=1)
    with pytest.raises(RuntimeError):
        job.run()
    say_otherwise(job, tenant_says, settings_say)
    assert job.run().ocr_pages == 3
    assert (read, job.revisions()) == ([1, 2, 3], ["complete"])
    stored = job.connection.execute("select languages, profile from batchproc.ocr_revisions").fetchone()
    assert stored == (["eng"], {"mode": "skip", "dpi": 300, "orientation": True, "preparation": PREPARATION})

    # Nor when all was done, and only the ending of that attempt was lost.
    job.again(3)
    assert job.run().ocr_pages == 3
    assert read == [1, 2, 3]


def say_otherwise(job: Job, tenant_says: dict[str, Any], settings_say: dict[str, Any]) -> None:
    """The same job's next attempt, of a tenant and under settings that say something else now."""
    job.again(2)
    job.ctx.tenant_settings = tenant_says
    job.ctx.settings = Settings.model_validate({"ocr": {"languages": ["eng"], **settings_say}})


def test_another_job_begins_anew_where_options_have_changed(
    job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault_on(monkeypatch, 2, times=1)
    with pytest.raises(RuntimeError):
        job.run()
    end_job(job.connection, job.ctx)
    job.claim()
    job.ctx.tenant_settings = {"mode": "force"}
    assert job.run().ocr_pages == 3
    assert read == [1, 1, 2, 3]


def test_a_job_does_not_go_on_in_languages_that_are_gone(
    job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault_on(monkeypatch, 2, times=1)
    with pytest.raises(RuntimeError):
        job.run()
    job.connection.execute("update batchproc.ocr_revisions set languages = '{fra}'")
    job.again(2)
    assert job.run().ocr_pages == 3
    assert read == [1, 1, 2, 3]


@pytest.mark.parametrize(
    ("args", "otherwise"),
    [
        ({}, False),
        ({"mode": "skip"}, False),
        ({"mode": "redo"}, True),
        ({"languages": ("eng", "deu")}, False),
        ({"languages": ("deu", "eng")}, True),
        ({"languages": ("auto",)}, True),
        ({"languages": ("auto", "eng", "deu")}, True),
    ],
)
def test_only_what_a_job_says_itself_goes_before_what_it_began_with(args: dict[str, Any], otherwise: bool) -> None:
    begun_with = PageOptions(languages=("eng", "deu"))
    assert asks_otherwise(OcrArgs(document_id=1, **args), begun_with) is otherwise


def test_a_detection_among_the_languages_of_tenant_or_settings_goes_on_with_those_it_had() -> None:
    args = OcrArgs(document_id=1, languages=("auto",))
    assert not asks_otherwise(args, PageOptions(languages=("eng", "deu"), detect=True))


def test_reading_again_keeps_the_old_revision(job: Job) -> None:
    first = job.run()
    end_job(job.connection, job.ctx, "completed")
    job.claim()
    job.args = OcrArgs(document_id=job.document_id, mode="redo")
    second = job.run()
    assert second.revision_id != first.revision_id
    assert job.ctx.documents.load(job.connection, job.document_id).current_revision == second.revision_id
    assert job.revisions() == ["complete", "complete"]
    assert job.ctx.follow_ups == [FollowUp("classify", {}, job.document_id)]


def test_a_job_whose_ending_was_lost_reads_nothing_again(job: Job, read: list[int]) -> None:
    first = job.run()
    job.again(1)
    assert job.run() == first
    assert read == [1, 2, 3]
    assert job.ctx.follow_ups == [FollowUp("classify", {}, job.document_id)]


def test_two_jobs_do_not_read_one_document_at_once(job: Job, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    fault_on(monkeypatch, 2, times=1)
    with pytest.raises(RuntimeError):
        job.run()
    running = job.ctx
    job.claim()
    with pytest.raises(Snooze) as caught:
        job.run()
    assert caught.value.seconds > 0
    end_job(job.connection, running)
    assert job.run().ocr_pages == 3
    assert read == [1, 2, 3]


def test_a_document_is_known_to_be_read_while_the_others_row_is_locked(
    job: Job, monkeypatch: pytest.MonkeyPatch, database_url: str
) -> None:
    fault_on(monkeypatch, 2, times=1)
    with pytest.raises(RuntimeError):
        job.run()
    running = job.ctx
    job.claim()
    job.connection.execute("set lock_timeout = '5s'")
    with connect(database_url) as other, other.transaction():
        ClaimFence("batchproc").lock(other, running.job_id, running.claim_id)
        with pytest.raises(Snooze):
            job.run()


def test_a_worker_whose_claim_is_gone_writes_nothing_more(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def taken_back(number: int) -> None:
        if number == 2:
            claim_again(job.connection, job.ctx, attempt=2)

    before_each_page(monkeypatch, taken_back)
    with pytest.raises(ClaimLost):
        job.run()
    assert [found.state for found in job.pages()] == ["ocr", "started"]
    assert job.state() == ("pending", None)


@pytest.mark.parametrize("content", [b"something else", b"longer than what was there before" * 1000])
def test_a_changed_original_is_an_alarm(job: Job, three_pages: Path, content: bytes, read: list[int]) -> None:
    three_pages.write_bytes(content)
    assert job.fails().code == "source_changed"
    assert job.state() == ("failed", "source_changed")
    assert read == []


def test_an_original_of_the_same_size_is_not_taken_for_the_same(job: Job, three_pages: Path) -> None:
    content = bytearray(three_pages.read_bytes())
    content[-1] ^= 1
    three_pages.write_bytes(content)
    assert job.fails().code == "source_changed"


def test_an_original_that_changes_while_it_is_read_is_noticed(
    job: Job, three_pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written_to(number: int) -> None:
        if number == 3:
            with three_pages.open("ab") as file:
                file.write(b"more")

    before_each_page(monkeypatch, written_to)
    assert job.fails().code == "source_changed"
    assert job.state() == ("failed", "source_changed")
    assert job.text() == []
    assert job.revisions() == ["abandoned"]


def test_an_original_that_is_only_touched_is_the_same(
    job: Job, three_pages: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_each_page(monkeypatch, lambda number: os.utime(three_pages, (number, number)))
    assert job.run().pages == 3


def test_a_missing_original_fails_even_a_document_that_has_text(job: Job, three_pages: Path) -> None:
    add_text(job.connection, job.tenant, job.document_id, ["text"])
    three_pages.unlink()
    assert job.fails().code == "source_missing"
    assert job.state() == ("failed", "source_missing")
    assert job.text() == ["text"]


def test_a_copy_that_was_imported_too_stands_in_for_a_missing_original(
    job: Job, three_pages: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere" / "copy.tif"
    copy.parent.mkdir()
    three_pages.rename(copy)
    job.connection.execute(
        "insert into batchproc.document_paths (tenant_id, document_id, root, path) values (%s, %s, %s, %s)",
        [job.tenant, job.document_id, bytes(copy.parent), bytes(copy.relative_to(copy.parent))],
    )
    assert job.run().pages == 3


def test_a_root_that_is_not_there_is_no_failure_of_the_document(job: Job, three_pages: Path) -> None:
    three_pages.parent.rename(three_pages.parent.with_name("unmounted"))
    try:
        with pytest.raises(StorageUnavailable, match="cannot be opened"):
            job.run()
    finally:
        three_pages.parent.with_name("unmounted").rename(three_pages.parent)
    assert job.state() == ("pending", None)


def test_a_missing_original_whose_copys_storage_is_away_is_no_failure(
    job: Job, three_pages: Path, tmp_path: Path
) -> None:
    three_pages.unlink()
    job.connection.execute(
        "insert into batchproc.document_paths (tenant_id, document_id, root, path) values (%s, %s, %s, %s)",
        [job.tenant, job.document_id, bytes(tmp_path / "unmounted"), b"copy.tif"],
    )
    with pytest.raises(StorageUnavailable, match="cannot be opened"):
        job.run()
    assert job.state() == ("pending", None)


def test_a_read_error_of_the_storage_is_no_failure_of_the_document(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(number: int) -> None:
        raise OSError(5, "Input/output error")

    before_each_page(monkeypatch, broken)
    with pytest.raises(StorageUnavailable):
        job.run()
    assert job.state() == ("pending", None)


def test_a_full_disk_of_the_database_may_pass(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise psycopg.errors.DiskFull("could not extend file")

    before_each_page(monkeypatch, full)
    failure = job.fails()
    assert (failure.code, failure.retry) == ("no_space", True)


def test_a_missing_language_leaves_text_that_is_there(job: Job, tenant: int) -> None:
    job.args = OcrArgs(
        document_id=job.document_id,
        languages=(
            "eng",
            "xyz",
        ),
    )
    failure = job.fails()
    assert failure.code == "missing_language"
    assert "xyz" in str(failure.detail)
    assert job.state() == ("failed", "missing_language")
    add_text(job.connection, tenant, job.document_id, ["text"])
    job.again(1)
    assert job.fails().code == "missing_language"
    assert job.state() == ("completed", "missing_language")
    job.args = OcrArgs(document_id=job.document_id)
    job.again(1)
    job.run()
    assert job.state() == ("completed", None)


def test_memory_running_out_is_left_to_the_worker(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(number: int) -> None:
        raise MemoryError

    before_each_page(monkeypatch, full)
    with pytest.raises(MemoryError):
        job.run()


def test_a_document_of_another_tenant_is_unknown(job: Job) -> None:
    other = add_document(job.connection, add_tenant(job.connection, "other"), content=b"theirs")
    job.args = OcrArgs(document_id=other)
    assert job.fails().code == "unknown_document"


def test_the_most_special_option_counts(job: Job) -> None:
    def options(**args: Any) -> tuple[tuple[str, ...], str]:
        ctx = job.claim()
        found = page_options(ctx, ctx.document, OcrArgs(document_id=job.document_id, **args))
        return found.languages, found.mode

    assert options() == (("eng",), "skip")
    job.connection.execute("""update batchproc.tenants set settings = '{"languages": ["fra"], "mode": "redo"}'""")
    assert options() == (("fra",), "redo")
    job.connection.execute("update batchproc.documents set language = 'deu+eng'")
    assert options() == (("deu", "eng"), "redo")
    assert options(languages=("ita",), mode="skip") == (("ita",), "skip")


@pytest.mark.parametrize(
    "args", [{"mod": "redo"}, {"mode": "fast"}, {"languages": []}, {"languages": ["../eng"]}, {"document_id": "x"}]
)
def test_args_that_do_not_fit_are_refused(args: dict[str, Any]) -> None:
    entry = declared(ocr)
    assert validated_args(entry, {"mode": "redo"}, 7) == OcrArgs(document_id=7, mode="redo")
    with pytest.raises(ValidationError):
        validated_args(entry, args, 7)
    with pytest.raises(ValidationError):
        validated_args(entry, {}, None)


CORPUS = Path(os.environ.get("BATCHPROC_TEST_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")


@pytest.mark.skipif(not CORPUS.is_dir(), reason="the corpus of real files is not here")
@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("20K-gray.png", "too_large"),
        ("decompression_bomb.gif", "too_large"),
        ("invalid.pdf", "unreadable_file"),
        ("half.pdf", "unreadable_file"),
        ("password-is-test.pdf", "encrypted"),
        ("zero-byte.pdf", "empty_file"),
        ("text-named.pdf", "unsupported_type"),
    ],
)
def test_bad_files_fail_by_their_name(connection: Conn, tenant: int, tmp_path: Path, name: str, code: str) -> None:
    job = Job(connection, tenant, CORPUS / name, tmp_path)
    failure = job.fails()
    assert (failure.code, failure.retry) == (code, False)
    assert job.state() == ("failed", code)
    assert job.revisions() == []
