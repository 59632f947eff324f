"""Large documents in ranges, with the real engine: what each job of them does, and what comes of all together."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loguru import logger

from batchproc.core.outcome import ErrorClass, Failed
from batchproc.database import connect
from batchproc.documents.current_revision import CurrentRevision
from batchproc.handlers import ocr_pages
from batchproc.handlers.errors import Failure, Snooze, StorageUnavailable
from batchproc.handlers.ocr import OcrResult, RangeResult, SplitResult
from batchproc.handlers.ocr_pages import loaded_engine
from batchproc.ocr.errors import OcrFailure
from tests.handlers.running_job import Conn, RecordingSink, add_tenant
from tests.handlers.splitting import LargeDocument, settings, tiff
from tests.handlers.test_ocr import before_each_page, fault_on, page
from tests.queue.helpers import STORE, one, retry, rows_of

WORDS = ("alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf")
ALL = [f"This is {word}" for word in WORDS]
PAGES = range(1, 8)


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


@pytest.fixture(scope="module")
def seven_pages(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    folder = tmp_path_factory.mktemp("drawn")
    return tiff(folder, [page(f"This is {word}", 460) for word in WORDS]).read_bytes()


@pytest.fixture
def file(tmp_path: Path, seven_pages: bytes) -> Path:
    written = tmp_path / "large.tif"
    written.write_bytes(seven_pages)
    return written


@pytest.fixture
def large(connection: Conn, file: Path, tmp_path: Path) -> LargeDocument:
    return LargeDocument(connection, add_tenant(connection), file, tmp_path)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The pages that are really read, in order."""
    numbers: list[int] = []
    before_each_page(monkeypatch, numbers.append)
    return numbers


def run_all(large: LargeDocument, jobs: list[int]) -> list[Any]:
    return [large.run(job_id) for job_id in jobs]


def test_a_large_document_is_read_in_ranges_of_about_one_size(large: LargeDocument, read: list[int]) -> None:
    first = large.enqueue(trigger="upload", keep="best")
    result = large.run(first)
    assert isinstance(result, SplitResult)
    assert (result.pages, result.ranges, read) == (7, 3, [])
    assert large.waiting() == [
        {"range": pages, "languages": ["eng"], "trigger": "upload", "keep": "best"}
        for pages in ([1, 2], [3, 4], [5, 7])
    ]
    sink = RecordingSink()
    results = [large.run(job_id, sink) for job_id in reversed(large.ranges())]
    assert read == [5, 6, 7, 3, 4, 1, 2]
    assert [
        (found.first_page, found.last_page, found.pages, found.words)
        for found in results
        if isinstance(found, RangeResult)
    ] == [
        (5, 7, 3, 9),
        (3, 4, 2, 6),
        (1, 2, 2, 6),
    ]
    assert (3, 3) in sink.steps
    assert (large.text(), large.follow_ups) == ([], ["ocr"] * 3)

    joined = large.join()
    assert (joined.pages, joined.ocr_pages, joined.words, joined.failed_pages, joined.partial) == (7, 7, 21, [], False)
    assert large.text() == ALL
    assert large.document() == ("completed", None)
    query = "select kind, args from batchproc.processing_jobs where kind <> 'ocr'"
    assert rows_of(large.connection, query) == [{"kind": "classify", "args": {"trigger": "upload"}}]
    query = "select media_type, page_count from batchproc.documents"
    assert rows_of(large.connection, query) == [{"media_type": "image/tiff", "page_count": 7}]
    assert one(large.connection, "select pages_ocr from batchproc.usage_daily where kind = 'ocr'") == 7


def test_as_many_pages_as_a_range_may_have_are_read_at_once(large: LargeDocument) -> None:
    large.settings = settings(7)
    assert isinstance(large.run(large.enqueue()), OcrResult)
    assert (large.ranges(), large.text()) == ([], ALL)


def test_a_split_whose_ending_was_lost_is_made_again(large: LargeDocument, read: list[int]) -> None:
    first = large.enqueue()
    large.killed(first)
    assert large.ranges() == []
    large.settings = settings(4)
    large.run(first)
    assert [large.args(job_id).range for job_id in large.ranges()] == [(1, 3), (4, 7)]
    run_all(large, large.ranges())
    assert large.join().partial is False
    assert (sorted(read), large.revisions()) == (list(PAGES), ["complete"])


def test_only_what_is_left_is_split(large: LargeDocument, read: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    first = large.enqueue()
    large.settings = settings(25)
    with monkeypatch.context() as broken:
        fault_on(broken, 3, times=1)
        with pytest.raises(RuntimeError):
            large.killed(first)
    assert read == [1, 2]
    large.settings = settings(3)
    large.run(first)
    assert [large.args(job_id).range for job_id in large.ranges()] == [(3, 4), (5, 7)]
    run_all(large, large.ranges())
    large.join()
    assert (sorted(read), large.text(), large.revisions()) == (list(PAGES), ALL, ["complete"])


def test_a_killed_range_goes_on_at_its_page(
    large: LargeDocument, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = large.split()
    with monkeypatch.context() as broken:
        fault_on(broken, 6, times=1)
        with pytest.raises(RuntimeError):
            large.killed(ranges[2])
    run_all(large, ranges)
    large.join()
    assert (read, large.text()) == ([5, 1, 2, 3, 4, 6, 7], ALL)


def test_a_stopping_node_gets_its_worker_back_after_the_page(large: LargeDocument, read: list[int]) -> None:
    ranges = large.split()
    with pytest.raises(Snooze):
        large.run(ranges[2], RecordingSink(stop_after=1))
    assert (read, large.joins()) == ([5], [])
    large.connection.execute("update batchproc.processing_jobs set state = 'available' where state = 'scheduled'")
    run_all(large, ranges)
    large.join()
    assert (sorted(read), large.text()) == (list(PAGES), ALL)


def test_the_pages_of_a_range_that_is_given_up_on_have_its_code(large: LargeDocument) -> None:
    ranges = large.split()
    large.discard(ranges[1], "poison")
    run_all(large, [ranges[0], ranges[2]])
    joined = large.join()
    assert (joined.failed_page_count, joined.partial) == (2, True)
    assert large.failed() == {3: "poison", 4: "poison"}
    assert large.document() == ("partial", None)
    assert large.text() == [*ALL[:2], "", "", *ALL[4:]]
    assert one(large.connection, "select pages_failed from batchproc.usage_daily where kind = 'ocr'") == 2


def test_pages_that_were_read_before_their_range_was_given_up_on_stay(
    large: LargeDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = large.split()
    with monkeypatch.context() as broken:
        fault_on(broken, 6, times=1)
        with pytest.raises(RuntimeError):
            large.killed(ranges[2])
    large.discard(ranges[2], "timeout")
    run_all(large, ranges[:2])
    large.join()
    assert large.failed() == {6: "timeout", 7: "timeout"}


def test_a_document_of_which_no_range_could_be_read_fails(large: LargeDocument) -> None:
    ranges = large.split()
    for job_id, code in zip(ranges, ("stalled", "poison", "poison"), strict=True):
        large.discard(job_id, code)
    with pytest.raises(Failure) as caught:
        large.run(large.joins()[0])
    assert (caught.value.code, caught.value.detail) == ("stalled", "none of 7 pages could be read")
    assert (large.document(), large.revisions()) == (("failed", "stalled"), ["abandoned"])
    assert large.follow_ups == ["ocr"] * 3


def test_a_join_whose_ending_was_lost_joins_nothing_again(large: LargeDocument) -> None:
    run_all(large, large.split())
    [joining] = large.joins()
    large.killed(joining)
    assert large.document() == ("completed", None)
    assert isinstance(large.run(joining), OcrResult)
    assert (large.revisions(), large.follow_ups.count("classify")) == (["complete"], 1)


def test_a_join_waits_for_a_range_that_is_read_again(large: LargeDocument) -> None:
    ranges = large.split()
    run_all(large, ranges[1:])
    large.discard(ranges[0])
    retry(large.connection, [ranges[0]])
    assert large.run(large.joins()[0]) is None
    assert (large.document(), large.joins()) == (("pending", None), [])
    large.run(ranges[0])
    assert large.join().partial is False
    assert large.text() == ALL


def test_a_range_that_is_retried_after_the_join_asks_for_the_failed_pages(
    large: LargeDocument, read: list[int]
) -> None:
    ranges = large.split(trigger="upload")
    large.discard(ranges[1])
    run_all(large, [ranges[0], ranges[2]])
    large.join()
    read.clear()
    retry(large.connection, [ranges[1]])
    assert large.run(ranges[1]) is None
    assert large.waiting() == [{"pages": "failed"}], "what follows an upload has followed it"
    [again] = [row["job_id"] for row in rows_of(large.connection, WAITING, [large.document_id])]
    large.run(again)
    assert (read, large.text(), large.document()) == ([3, 4], ALL, ("completed", None))


WAITING = "select job_id from batchproc.processing_jobs where document_id = %s and state = 'available' and kind = 'ocr'"


@pytest.mark.parametrize("content", [b"something else", None], ids=["changed", "missing"])
def test_an_original_that_is_another_ends_all_of_the_document(
    large: LargeDocument, file: Path, content: bytes | None, read: list[int]
) -> None:
    ranges = large.split()
    large.run(ranges[0])
    original = file.read_bytes()
    file.unlink() if content is None else file.write_bytes(content)
    code = "source_missing" if content is None else "source_changed"
    with pytest.raises(Failure) as caught:
        large.run(ranges[1])
    assert caught.value.code == code
    assert (large.document(), large.revisions()) == (("failed", code), ["abandoned"])
    file.write_bytes(original)
    assert large.run(ranges[2]) is None
    assert (large.joins(), read, large.document()) == ([], [1, 2], ("failed", code))


def test_ranges_that_are_retried_after_their_document_was_given_up_on_have_it_read_anew(
    large: LargeDocument, file: Path, read: list[int]
) -> None:
    ranges = large.split(trigger="upload", mode="force")
    large.discard(ranges[0], "poison")
    original = file.read_bytes()
    file.unlink()
    with pytest.raises(Failure):
        large.run(ranges[1])
    file.write_bytes(original)
    retry(large.connection, ranges[:2])
    assert run_all(large, ranges) == [None] * 3
    assert large.waiting() == [{"trigger": "upload", "mode": "force", "languages": ["eng"]}]
    [again] = [row["job_id"] for row in rows_of(large.connection, WAITING, [large.document_id])]
    large.run(again)
    assert large.document() == ("failed", "source_missing"), "as long as it is not read"
    run_all(large, large.ranges()[-3:])
    large.join()
    assert (sorted(read), large.text(), large.document()) == (list(PAGES), ALL, ("completed", None))


def test_a_range_that_is_retried_beside_a_newer_reading_is_wanted_no_more(large: LargeDocument, file: Path) -> None:
    ranges = large.split()
    original = file.read_bytes()
    file.unlink()
    with pytest.raises(Failure):
        large.run(ranges[0])
    file.write_bytes(original)
    newer = large.split()
    retry(large.connection, ranges[:1])
    assert run_all(large, ranges) == [None] * 3
    assert len(large.waiting()) == len(newer)
    run_all(large, newer)
    large.join()
    assert large.text() == ALL


def test_a_join_that_is_retried_after_no_page_could_be_read_has_the_document_read_anew(large: LargeDocument) -> None:
    for job_id in large.split():
        large.discard(job_id, "poison")
    [joining] = large.joins()
    with pytest.raises(Failure):
        large.run(joining)
    retry(large.connection, [joining])
    assert large.run(joining) is None
    assert large.waiting() == [{"languages": ["eng"]}]


def test_a_join_that_gave_up_and_whose_ending_was_lost_reads_nothing_anew(large: LargeDocument) -> None:
    for job_id in large.split():
        large.discard(job_id, "poison")
    [joining] = large.joins()
    with pytest.raises(Failure):
        large.killed(joining)
    assert large.run(joining) is None
    assert large.waiting() == []


def test_a_range_that_is_tried_again_by_itself_is_not_retried(large: LargeDocument, file: Path) -> None:
    ranges = large.split()
    claimed, _ = large.claim(ranges[0])
    large.end(claimed, Failed(ErrorClass.CRASHED, "poison"))
    file.unlink()
    with pytest.raises(Failure):
        large.run(ranges[1])
    assert large.run(ranges[0]) is None
    assert [args["range"] for args in large.waiting()] == [[5, 7]]


def test_a_range_that_runs_when_the_original_is_found_changed_stops_at_its_page(
    large: LargeDocument, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = large.split()
    read: list[int] = []

    def changed_meanwhile(number: int) -> None:
        read.append(number)
        if number == 5:
            original = file.read_bytes()
            file.write_bytes(b"something else")
            with pytest.raises(Failure):
                large.run(ranges[1])
            file.write_bytes(original)

    before_each_page(monkeypatch, changed_meanwhile)
    assert large.run(ranges[2]) is None
    assert read == [5]
    assert large.document() == ("failed", "source_changed")


def test_a_range_waits_for_its_storage(large: LargeDocument, file: Path, tmp_path: Path) -> None:
    ranges = large.split()
    large.connection.execute("update batchproc.storage_roots set inode = inode + 1")
    file.rename(tmp_path / "elsewhere")
    with pytest.raises(StorageUnavailable):
        large.killed(ranges[0])
    (tmp_path / "elsewhere").rename(file)
    assert large.revisions() == ["open"]
    run_all(large, ranges)
    assert large.join().partial is False


def test_what_is_wrong_for_one_range_alone_fails_only_its_pages(
    large: LargeDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = large.split()
    with monkeypatch.context() as broken:
        broken.setattr("batchproc.handlers.ocr_reading.open_source", _encrypted)
        with pytest.raises(Failure) as caught:
            large.run(ranges[0])
    assert caught.value.code == "encrypted"
    assert large.document() == ("pending", None)
    run_all(large, ranges[1:])
    large.join()
    assert large.failed() == {1: "encrypted", 2: "encrypted"}


def _encrypted(*_: Any, **__: Any) -> Any:
    raise OcrFailure("encrypted", "no password fits")


def test_another_job_waits_until_all_ranges_are_joined(large: LargeDocument, read: list[int]) -> None:
    ranges = large.split()
    other = large.enqueue()
    for job_id in [*ranges, None]:
        large.connection.execute("update batchproc.processing_jobs set state = 'available' where state = 'scheduled'")
        with pytest.raises(Snooze) as caught:
            large.run(other)
        assert caught.value.seconds > 0
        if job_id is not None:
            large.run(job_id)
    large.join()
    large.connection.execute("update batchproc.processing_jobs set state = 'available' where state = 'scheduled'")
    assert isinstance(large.run(other), SplitResult)
    assert (sorted(read), large.revisions()) == (list(PAGES), ["complete", "open"])


def test_after_a_cancel_the_next_job_goes_on_with_what_was_read(large: LargeDocument, read: list[int]) -> None:
    ranges = large.split()
    large.run(ranges[0])
    STORE.cancel(large.connection, ranges[1:])
    assert (large.joins(), large.document(), large.revisions()) == ([], ("pending", None), ["open"])

    others = large.split()
    assert [large.args(job_id).range for job_id in others] == [(3, 4), (5, 7)]
    assert large.revisions() == ["abandoned", "open"]
    retry(large.connection, [ranges[1]])
    assert large.run(ranges[1]) is None, "others read its pages now"
    run_all(large, others)
    joined = large.join()
    assert (read, large.text(), joined.seconds > 0) == (list(PAGES), ALL, True)
    assert large.revisions() == ["complete"]


def test_cancelled_ranges_that_are_retried_are_joined(large: LargeDocument, read: list[int]) -> None:
    ranges = large.split()
    large.run(ranges[0])
    STORE.cancel(large.connection, ranges[1:])
    retry(large.connection, ranges[1:])
    run_all(large, ranges[1:])
    large.join()
    assert (read, large.text()) == (list(PAGES), ALL)


def test_pages_that_nobody_knows_the_job_of_are_not_made_up(large: LargeDocument) -> None:
    """Cancelled jobs were pruned, and another one was retried since: the document keeps the text it has."""
    ranges = large.split()
    large.run(ranges[0])
    STORE.cancel(large.connection, ranges[1:])
    large.connection.execute("delete from batchproc.processing_jobs where job_id = %s", [ranges[1]])
    retry(large.connection, [ranges[2]])
    large.run(ranges[2])
    assert large.run(large.joins()[0]) is None
    assert (large.document(), large.revisions()) == (("pending", None), ["open"])
    large.settings = settings(25)
    assert isinstance(large.run(large.enqueue()), OcrResult)
    assert large.text() == ALL


def test_ranges_read_as_it_was_said_when_the_document_was_split(
    large: LargeDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = large.split()
    large.connection.execute("""update batchproc.tenants set settings = '{"languages": ["deu"], "mode": "force"}'""")
    large.settings = settings(dpi=150, orientation=False)
    seen: list[tuple[tuple[str, ...], str, int, bool]] = []
    real = vars(ocr_pages)["read_page"]

    def noting(source: Any, engine: Any, options: Any) -> Any:
        seen.append((options.languages, options.mode, options.dpi, options.orientation))
        return real(source, engine, options)

    monkeypatch.setattr(ocr_pages, "read_page", noting)
    run_all(large, ranges)
    large.join()
    assert set(seen) == {(("eng",), "skip", 300, True)}


def test_a_range_that_another_engine_reads_is_told_by_the_revision(
    large: LargeDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    ranges = large.split()
    run_all(large, ranges[:2])
    monkeypatch.setattr(loaded_engine(()), "version", "9.9.9")
    warnings: list[str] = []
    heard = logger.add(warnings.append, level="WARNING", format="{message}")
    large.run(ranges[2])
    logger.remove(heard)
    assert "are read by another engine, data or preparation of pages" in "".join(warnings)
    large.join()
    assert one(large.connection, "select kept_versions from batchproc.ocr_revisions") == ["9.9.9"]
    assert large.text() == ALL


def test_the_failed_pages_of_a_large_document_are_read_in_ranges(
    large: LargeDocument, read: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    def unreadable(number: int) -> None:
        if number != 4:
            raise OcrFailure("unreadable_file", f"page {number} is damaged")

    with monkeypatch.context() as broken:
        before_each_page(broken, unreadable)
        run_all(large, large.split())
        large.join()
    assert sorted(large.failed()) == [1, 2, 3, 5, 6, 7]
    read.clear()
    with monkeypatch.context() as broken:
        before_each_page(broken, unreadable)
        ranges = large.split(pages="failed")
        assert [large.args(job_id).range for job_id in ranges] == [(1, 3), (5, 7)]
        run_all(large, ranges)
        large.join()
    assert large.revisions() == ["complete", "abandoned"], "they failed again"
    run_all(large, large.split(pages="failed"))
    assert large.join().partial is False
    assert 4 not in read
    assert large.text() == ALL


def test_a_range_whose_pages_failed_is_no_partial_document_by_itself(
    large: LargeDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run counts the document once, by the job that joins."""

    def unreadable(number: int) -> None:
        if number == 1:
            raise OcrFailure("unreadable_file", "damaged")

    before_each_page(monkeypatch, unreadable)
    found = run_all(large, large.split())
    assert [result.failed_page_count for result in found] == [1, 0, 0]
    assert not any(hasattr(result, "partial") for result in found)
    assert large.join().partial is True


def test_the_policy_counts_for_what_is_joined(large: LargeDocument) -> None:
    with large.connection.transaction():
        CurrentRevision("batchproc", tenant_id=large.tenant_id).type(
            large.connection, large.document_id, ["by hand"] * 7, source_sha256=b"", typed_by="somebody"
        )
    run_all(large, large.split())
    large.join()
    assert large.text() == ["by hand"] * 7
    assert one(large.connection, "select verdict from batchproc.ocr_revisions where source = 'engine'") == "person"


@pytest.mark.parametrize("range_", [[1, 2], "join"])
def test_ranges_are_no_jobs_to_be_enqueued_by_hand(large: LargeDocument, range_: object) -> None:
    with pytest.raises(Failure) as caught:
        large.run(large.enqueue(range=range_))
    assert caught.value.code == "invalid_args"
    assert large.document() == ("failed", "invalid_args")


@pytest.mark.parametrize("range_", [[2, 1], [0, 3], [1], "all", 7])
def test_a_range_is_its_first_and_last_page(large: LargeDocument, range_: object) -> None:
    with pytest.raises(ValueError, match="range"):
        large.args(large.enqueue(range=range_))


def test_beside_a_node_of_an_older_release_nothing_is_split(large: LargeDocument) -> None:
    large.connection.execute("update batchproc.nodes set reads_ranges = false, kinds = '{ocr}'")
    assert isinstance(large.run(large.enqueue()), OcrResult)
    assert large.text() == ALL
