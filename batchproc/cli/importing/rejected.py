"""The files that an import rejects: a line for each on stderr, what to do said once, and how many they were."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from batchproc.cli.shared.messages import say
from batchproc.core.counted import counted
from batchproc.core.shown_text import one_line
from batchproc.documents.paths import terminal_path
from batchproc.ops.imported import Rejected

_OUTSIDE = "outside_roots"
_ROOTS_NAMED = 3


class RejectedFiles:
    """Counts them by their codes, and tells of each.

    Args:
        roots: those of the settings, which every file has to lie below.
        goes_on: there is no end at which to say what to do: it is said with the first.
    """

    def __init__(self, roots: Sequence[bytes], *, goes_on: bool = False) -> None:
        self._roots = roots
        self._goes_on = goes_on
        self._led_outside = 0
        self.codes: Counter[str] = Counter()

    @property
    def total(self) -> int:
        return self.codes.total()

    def tell(self, rejected: Rejected) -> None:
        """A line on stderr, with the path once."""
        self.codes[rejected.failure_code] += 1
        path = terminal_path(rejected.path)
        # It is for the log too, and mostly begins with the path.
        detail = one_line(rejected.detail).removeprefix(f"{path}: ")
        self._led_outside += rejected.failure_code == _OUTSIDE and bool(detail)
        say(f"rejected {path}: {rejected.failure_code}" + (f": {detail}" if detail else ""))
        if self._goes_on and rejected.failure_code == _OUTSIDE and self.codes[_OUTSIDE] == 1:
            self.tell_remedy()

    def tell_remedy(self) -> None:
        """Says which setting or folder decides, where files were rejected for their place."""
        for remedy in self._remedy():
            say(f"{_OUTSIDE}: {remedy}")

    def tell_total(self) -> None:
        """Says how many of which code there are, if there are several."""
        if self.total > 1:
            say(f"{counted(self.total, 'path')} rejected: {by_code(self.codes)}")

    def _remedy(self) -> Iterator[str]:
        if self.codes[_OUTSIDE] > self._led_outside:
            named = ", ".join(map(terminal_path, self._roots[:_ROOTS_NAMED])) or "none is set"
            more = f" and {len(self._roots) - _ROOTS_NAMED} more" if len(self._roots) > _ROOTS_NAMED else ""
            yield (
                f"a file has to lie below storage.roots ({named}{more}): import it from there, or add its root to the"
                " settings"
            )
        if self._led_outside:
            yield (
                "a link may lead neither out of the folder that it was found in nor out of storage.roots: import what"
                " it leads to by its own name"
                if self._roots
                else "a link may not lead out of the folder that is imported, or that it lies in: import what it leads"
                " to by its own name, or name a folder of both as one of storage.roots"
            )


def by_code(codes: Counter[str]) -> str:
    """``encrypted 12, too_large 1``."""
    return ", ".join(f"{code} {count}" for code, count in codes.most_common())
