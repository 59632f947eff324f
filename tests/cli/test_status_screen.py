"""The screen of ``status --watch``: it fits, it shows the worst first, and no name can move the cursor."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from rich.cells import cell_len

from batchproc.cli.status.screen import lines
from batchproc.ops.watching_status import Seen, Snapshot

AT = datetime(2026, 3, 1, 22, 0, tzinfo=UTC)
ONE, TWO = UUID(int=1), UUID(int=2)


def slot(number: int | None, node: UUID = ONE, **more: Any) -> dict[str, Any]:
    return {
        "node_id": node,
        "host": "archive-1" if node == ONE else "archive-2",
        "slot": number,
        "worker_pid": 4711,
        "job_id": 812_345 + (number or 0),
        "tenant": "acme",
        "kind": "ocr",
        "document_id": 1203,
        "attempt": 1,
        "seconds": 754.0,
        "resident_bytes": 812 << 20,
        "running": True,
        "progress": {"done": 217, "total": 400},
    } | more


def queue(tenant: str, available: int = 3, oldest: float = 60.0, **more: Any) -> dict[str, Any]:
    return {
        "tenant": tenant,
        "kind": "ocr",
        "lane": "bulk",
        "available": available,
        "scheduled": 0,
        "running": 0,
        "oldest_seconds": oldest,
    } | more


def node(node_id: UUID = ONE, slots: int = 4, *, alive: bool = True) -> dict[str, Any]:
    return {"node_id": node_id, "slots": slots, "alive": alive, "jobs_per_minute": 12.0}


def look(slots: list[dict[str, Any]], queues: list[dict[str, Any]], **more: Any) -> Snapshot:
    given: dict[str, Any] = {"nodes": [node()], "queues_at": AT, "jobs_per_minute": 12.0} | more
    return Snapshot(at=AT, slots=slots, queues=queues, **given)


def text(snapshot: Snapshot, width: int = 80, height: int = 24, **more: Any) -> str:
    return "\n".join(line.text for line in lines(snapshot, width, height, **more))


CROWDED = look(
    [slot(i, node_id, tenant="a-tenant-with-a-very-long-name-indeed") for node_id in (ONE, TWO) for i in range(64)],
    [queue(f"tenant-{number:04}-of-an-archive", 1000 + number, 1e6 + number) for number in range(5000)],
    nodes=[node(ONE, 64), node(TWO, 64)],
    pages_per_minute=4321.0,
    discarded=12,
    queues_at=AT - timedelta(minutes=2),
)  # fmt: skip


@pytest.mark.parametrize(("width", "height"), [(80, 24), (200, 60), (80, 12), (40, 10), (20, 5)])
@pytest.mark.parametrize("trouble", [None, "OperationalError"])
@pytest.mark.parametrize(
    "snapshot", [CROWDED, look([], []), look([slot(0)], [queue("acme")])], ids=["full", "none", "few"]
)
def test_it_fits_any_terminal(snapshot: Snapshot, width: int, height: int, trouble: str | None) -> None:
    drawn = lines(snapshot, width, height, trouble=trouble)
    assert len(drawn) == height
    assert max(cell_len(line.text) for line in drawn) <= width
    assert drawn[-1].text.startswith("q quits")


def test_a_slot_shows_all_that_is_known_on_80_columns() -> None:
    shown = text(look([slot(3)], [queue("acme")]))
    for known in ("3", "acme", "ocr", "812348", "1203", "217 of 400", "13 min", "812 MiB"):
        assert known in shown


def test_totals_rates_and_the_time_left_are_above() -> None:
    snapshot = look([slot(0), slot(1)], [queue("acme", 100, 7300.0, scheduled=5, running=2)], pages_per_minute=34.56,
                    seconds_left=500.0)  # fmt: skip
    first, second = text(snapshot).splitlines()[:2]
    assert first.endswith("| 1 node, 2 of 4 slots busy | 12 jobs/min | 35 pages/min")
    assert second == "100 waiting | 5 later | 2 running | oldest 2 h 02 min | about 8 min 20 s left"


def test_until_a_minute_was_seen_it_is_told_what_was_done_in_the_seconds_since() -> None:
    def first(**more: Any) -> str:
        given = {"jobs_per_minute": None} | more
        return text(look([slot(0)], [], **given)).splitlines()[0].split(" | ", 1)[1]

    assert first() == "1 node, 1 of 4 slots busy"
    assert first(seen=Seen(6.0, 8, 3)) == "1 node, 1 of 4 slots busy | 8 jobs, 3 pages in 6.0 s"
    assert first(seen=Seen(6.0, 8, 0)) == "1 node, 1 of 4 slots busy | 8 jobs in 6.0 s"
    both = first(seen=Seen(6.0, 8, 3), jobs_per_minute=90.0)
    assert both == "1 node, 1 of 4 slots busy | 90 jobs/min | 3 pages in 6.0 s"


def test_what_does_not_fit_is_left_out_whole_and_what_was_given_up_on_never() -> None:
    first, second, third = text(CROWDED).splitlines()[:3]
    assert first.endswith("2 nodes, 128 of 128 slots busy | 12 jobs/min | 4321 pages/min")
    assert third == "12 discarded meanwhile: batchproc jobs list --state discarded"
    narrow = text(CROWDED, 60).splitlines()
    assert narrow[0].endswith("2 nodes, 128 of 128 slots busy | 12 jobs/min")
    assert narrow[1].split(" | ")[-1] in second.split(" | ")


def test_the_longest_wait_stands_first_and_the_rest_is_counted() -> None:
    shown = text(CROWDED)
    assert shown.index("tenant-4999") < shown.index("tenant-4998")
    assert "tenant-0000" not in shown
    assert "and 4997 more" in shown
    assert "and 11" in shown
    assert len(shown.splitlines()) == 24
    assert "counted 2 min ago:" in shown
    assert "17.5 M waiting" in shown


def test_nodes_are_named_when_there_are_several() -> None:
    assert "archive-1" not in text(look([slot(0)], []))
    both = text(look([slot(0), slot(0, TWO)], []))
    assert "archive-1" in both
    assert "archive-2" in both


def test_without_a_node_nothing_is_promised() -> None:
    shown = text(look([], [queue("acme")], nodes=[node(alive=False)]))
    assert "no node runs" in shown
    assert "left" not in shown
    assert "no slots with a job" in shown


def test_a_name_cannot_move_the_cursor() -> None:
    evil = slot(0, host="\x1b[2Jhost\n", tenant="\x1b]0;x\x07")
    shown = [line.text for line in lines(look([evil, slot(0, TWO)], []), 80, 24, trouble="gone\x1b[2J\nnow")]
    assert all(line.isprintable() for line in shown)
    assert len(shown) == 24


def test_what_is_unknown_is_a_dash_and_an_ended_job_says_so() -> None:
    bare = slot(None, document_id=None, seconds=None, resident_bytes=None, progress=None, running=False)
    [line] = [line for line in text(look([bare], [])).splitlines() if "812345" in line]
    assert line.split() == ["-", "acme", "ocr", "812345", "-", "ended", "-", "-"]


def test_trouble_and_a_held_screen_are_told() -> None:
    assert "the database does not answer: OperationalError" in text(look([], []), trouble="OperationalError")
    assert text(look([], []), held=True).splitlines()[-1] == "q quits  space goes on"
