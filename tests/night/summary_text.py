"""Reads the summary of a run as a person does, so that its numbers can be compared."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

_FAILED = re.compile(r"^(\S+): ([\d,]+) jobs? failed: (\w+): ")
_PARTIAL = re.compile(r"^(\S+): ([\d,]+) documents? partial, ([\d,]+) pages? failed: (\w+): ")
_MORE = re.compile(r"^and ([\d,]+) more such groups?(?:, also of [^:]*)?: batchproc report (\d+)$")
_LEFT = re.compile(
    r"^its window ended before ([\d,]+) jobs? \(([^)]*)\) could be done: about ([\d,]+) more such nights?$"
)
_CODES = re.compile(r"^failure codes: (.*)$")
_RATES = re.compile(
    r"^(?:([\d,]+) pages?(?: \(([\d,]+) failed\))?(?:, \S+;| in [^;]+;| and) )?"
    r"([\d,]+) jobs?(?:, \S+| in [^;]+); (\d+) workers busy (\d+)% of the time$"
)
_LAST = re.compile(r"^run (\d+): (.*), ([\d,]+) left, (.+), exit (\d+)$")


@dataclass(frozen=True)
class Summary:
    """Numbers of a summary; ``groups`` and ``partial`` are those that are shown, ``more`` how many are not.

    ``left`` is by kind and ``nights`` what it is said to take, both None where nothing was cut off.
    """

    groups: Counter[tuple[str, str]]
    partial: Counter[tuple[str, str]]
    more: int
    left: Counter[str] | None
    nights: int | None
    codes: Counter[str]
    pages: int
    failed_pages: int
    ended: int
    workers: int
    busy: float
    run_id: int
    counts: dict[str, int]
    all_left: int
    exit_code: int


def read_summary(text: str) -> Summary:
    """Raises AssertionError when a line that it must have is not there, or is there twice."""
    lines = re.sub(r"\n  (?! )", " ", text).splitlines()  # what was broken to fit the screen is one line again
    failed = [found for line in lines if (found := _FAILED.match(line))]
    partial = [found for line in lines if (found := _PARTIAL.match(line))]
    more = [found for line in lines if (found := _MORE.match(line))]
    left = [found for line in lines if (found := _LEFT.match(line))]
    [codes] = [found for line in lines if (found := _CODES.match(line))]
    [rates] = [found for line in lines if (found := _RATES.match(line))]
    last = _LAST.match(lines[-1])
    assert last is not None, lines[-1]
    assert max(len(line) for line in text.splitlines() if not line.startswith("    ")) <= 80
    return Summary(
        groups=Counter({(found[1], found[3]): _number(found[2]) for found in failed}),
        partial=Counter({(found[1], found[4]): _number(found[2]) for found in partial}),
        more=_number(more[0][1]) if more else 0,
        left=_named(left[0][2]) if left else None,
        nights=_number(left[0][3]) if left else None,
        codes=Counter({name: number for number, name in _pairs(codes[1], first="name")}),
        pages=_number(rates[1] or "0"),
        failed_pages=_number(rates[2] or "0"),
        ended=_number(rates[3]),
        workers=_number(rates[4]),
        busy=_number(rates[5]) / 100,
        run_id=_number(last[1]),
        counts=dict(_named(last[2])),
        all_left=_number(last[3]),
        exit_code=_number(last[5]),
    )


def _named(text: str) -> Counter[str]:
    """Of ``12 ocr, 3 classify``."""
    return Counter({name: number for number, name in _pairs(text, first="number")})


def _pairs(text: str, first: str) -> list[tuple[int, str]]:
    pairs = [part.rsplit(" ", 1) for part in text.split(", ")]
    if first == "name":
        return [(_number(number), name) for name, number in pairs]
    return [(_number(number), name) for number, name in pairs]


def _number(text: str) -> int:
    return int(text.replace(",", ""))
