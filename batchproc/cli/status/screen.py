"""The screen of ``status --watch`` as lines of text: what is most worth seeing first, cut to the terminal's size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from batchproc.cli.shared.output import shown
from batchproc.cli.shared.tables import laid_out
from batchproc.core.counted import counted
from batchproc.core.durations import duration
from batchproc.ops.watching_status import Snapshot

_SLOTS = ("node", "slot", "tenant", "kind", "job", "document", "progress", "time", "memory")
_QUEUES = ("tenant", "kind", "lane", "waiting", "later", "running", "oldest")
_RIGHT = frozenset({"slot", "job", "document", "progress", "time", "memory", "waiting", "later", "running", "oldest"})
_NAME_CELLS = 18
_LEAST_ROWS = 4  # of queues, however many slots there are
_AROUND_TABLES = 8  # two lines of totals, three blank ones, two headers, the keys
_STALE_SECONDS = 10


class Line(NamedTuple):
    """Text without line breaks, and rich's name of its style."""

    text: str
    style: str = ""


def lines(look: Snapshot, width: int, height: int, *, held: bool = False, trouble: str | None = None) -> list[Line]:
    """At most ``height`` lines of at most ``width`` terminal cells.

    Args:
        held: the screen is kept as it is, by a key.
        trouble: why there is no newer look.
    """
    room = max(2, height - _AROUND_TABLES - (trouble is not None) - (look.discarded > 0))
    slots, queues = _slots(look), _queues(look)
    for_slots = min(len(slots), max(1, room - min(_LEAST_ROWS, max(1, len(queues)))))
    body = [
        *_totals(look, width),
        *([Line(f"the database does not answer: {shown(trouble)}", "bold red")] if trouble else []),
        Line(""),
        *_table(_SLOTS, slots, for_slots, "no slots with a job", width),
        Line(_how_old(look), "dim"),
        *_table(_QUEUES, queues, room - max(1, for_slots), "nothing waits or runs", width),
    ]
    keys = "q quits  space goes on" if held else "q quits  space holds the screen"
    fitted = [Line(_cut(line.text, width), line.style) for line in body][: height - 1]
    blank = [Line("")] * (height - 1 - len(fitted))
    return [*fitted, *blank, Line(_cut(keys, width), "reverse")]


def _totals(look: Snapshot, width: int) -> list[Line]:
    nodes = look.live_nodes
    slots = sum(node["slots"] for node in nodes)
    busy = min(slots, len(look.slots))
    first = [
        look.at.astimezone().strftime("%H:%M:%S"),
        f"{counted(len(nodes), 'node')}, {busy} of {counted(slots, 'slot')} busy" if nodes else "no node runs",
    ]
    first += _rates(look) if nodes else []
    oldest = max((queue["oldest_seconds"] or 0.0 for queue in look.queues), default=0.0)
    waiting = look.jobs("available")
    second = [
        f"{_short(waiting)} waiting",
        f"{_short(look.jobs('scheduled'))} later",
        f"{look.jobs('running')} running",
    ]
    if waiting:
        second.append(f"oldest {duration(oldest)}")
    if waiting and nodes and look.seconds_left is not None:
        second.append(f"about {duration(look.seconds_left)} left")
    bad = f"{look.discarded} discarded meanwhile: batchproc jobs list --state discarded"
    return [
        Line(_whole(first, width), "bold"),
        Line(_whole(second, width)),
        *([Line(bad, "red")] if look.discarded else []),
    ]


def _whole(parts: Sequence[str], width: int) -> str:
    """As many of the parts as fit, each of them whole, but the first."""
    line = parts[0]
    for part in parts[1:]:
        if cell_len(longer := f"{line} | {part}") > width:
            break
        line = longer
    return line


def _rates(look: Snapshot) -> list[str]:
    """Until it has been watched for a minute, what was done in the seconds since, in place of what nobody knows."""
    seen = look.seen
    rates: list[str] = []
    counts: list[str] = []
    if look.jobs_per_minute is not None:
        rates.append(f"{_rate(look.jobs_per_minute)} jobs/min")
    elif seen.jobs:
        counts.append(counted(seen.jobs, "job"))
    if look.pages_per_minute:
        rates.append(f"{_rate(look.pages_per_minute)} pages/min")
    elif seen.pages:
        counts.append(counted(seen.pages, "page"))
    return [*rates, *([f"{', '.join(counts)} in {duration(seen.seconds)}"] if counts else [])]


def _slots(look: Snapshot) -> list[list[str]]:
    several = len({slot["node_id"] for slot in look.slots}) > 1
    return [_slot(slot, several) for slot in look.slots]


def _slot(slot: dict[str, Any], several: bool) -> list[str]:
    progress = slot["progress"]
    memory = slot["resident_bytes"]
    return [
        _name(slot["host"]) if several else "",
        shown(slot["slot"]),
        _name(slot["tenant"]),
        _name(slot["kind"]),
        shown(slot["job_id"]),
        shown(slot["document_id"]),
        ("" if slot["running"] else "ended") if progress is None else f"{progress['done']} of {progress['total']}",
        "-" if slot["seconds"] is None else duration(slot["seconds"]),
        f"{memory / 2**20:.0f} MiB" if memory else "-",
    ]


def _queues(look: Snapshot) -> list[list[str]]:
    """Those with the longest wait first."""
    worst = sorted(look.queues, key=lambda q: (-(q["oldest_seconds"] or 0.0), -q["available"], -q["running"]))
    return [
        [
            _name(queue["tenant"]),
            _name(queue["kind"]),
            queue["lane"],
            *(shown(queue[state]) for state in ("available", "scheduled", "running")),
            duration(queue["oldest_seconds"]) if queue["available"] else "-",
        ]
        for queue in worst
    ]


def _table(names: Sequence[str], rows: list[list[str]], room: int, none: str, width: int) -> list[Line]:
    if not rows:
        return [Line(none, "dim")]
    more = len(rows) > room
    kept = rows[: room - 1] if more else rows
    # What no row has takes no room.
    used = [i for i in range(len(names)) if any(row[i] for row in rows)]
    told = laid_out(
        [names[i] for i in used],
        [[row[i] for i in used] for row in kept],
        [names[i] in _RIGHT for i in used],
        width,
    )
    rest = [Line(f"and {len(rows) - len(kept)} more", "dim")] if more else []
    return [Line(told[0], "dim"), *(Line(text) for text in told[1:]), *rest]


def _name(name: str | None) -> str:
    """Short enough that the numbers beside it stay on the screen; ``status --json`` has all of it."""
    text = shown(name)
    return text if cell_len(text) <= _NAME_CELLS else set_cell_size(text, _NAME_CELLS - 1) + "…"


def _cut(text: str, width: int) -> str:
    return text if cell_len(text) <= width else set_cell_size(text, width)


def _how_old(look: Snapshot) -> str:
    age = (look.at - look.queues_at).total_seconds()
    return f"counted {duration(age)} ago:" if age > _STALE_SECONDS else ""


def _short(number: int) -> str:
    """Of many thousands, with three digits: the queues show them whole."""
    if number < 100_000:
        return str(number)
    return f"{number / 1e6:.3g} M" if number >= 1_000_000 else f"{number / 1e3:.0f} k"


def _rate(number: float) -> str:
    return f"{number:.0f}" if number >= 10 else f"{number:.1f}"
