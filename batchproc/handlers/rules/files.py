"""Folders of rule files: read when they change, merged for a tenant.

A folder holds ``default.yaml`` for all tenants and ``<slug>.yaml`` for single ones. A tenant's rules go before the
default ones; one of the same name takes the default rule's place. Either file may be missing.
"""

from __future__ import annotations

import os
import stat
from collections import OrderedDict
from pathlib import Path
from typing import Generic

from batchproc.core.shown_text import one_line
from batchproc.handlers.errors import Failure
from batchproc.handlers.rules.model import RuleType, Versioned
from batchproc.handlers.rules.reading import MAX_FILE_BYTES, RuleFile, read
from batchproc.packaged import packaged_conf

MAX_CACHED_FILES = 256
DEFAULT = "default"
FAILURE_CODES = frozenset({"invalid_rules", "rules_unreadable"})
"""What a handler that uses rules declares besides its own codes."""

_MOST_SHOWN = 10


class InvalidRules(Failure):
    """Rule files are wrong. ``problems`` are lines ``file:line: key: message``, all there are."""

    def __init__(self, problems: tuple[str, ...]) -> None:
        shown = problems[:_MOST_SHOWN]
        rest = len(problems) - len(shown)
        super().__init__("invalid_rules", detail="; ".join(shown) + (f"; and {rest} more" if rest else ""))
        self.problems = problems


class UnreadableRules(Failure):
    """The folder or a file in it cannot be read at the moment, so it is transient."""

    def __init__(self, detail: str) -> None:
        super().__init__("rules_unreadable", detail=detail, retry=True)


Signature = tuple[int, int, int]


class RuleFolder(Generic[RuleType]):
    """The rule files of one sort, kept until their time, size or inode changes.

    Args:
        model: what a rule of this sort is.
        packaged: the name of the folder that comes with batchproc, which stands in when none is configured.
    """

    def __init__(self, model: type[RuleType], packaged: str) -> None:
        self._model = model
        self._packaged = packaged
        self._files: OrderedDict[Path, tuple[Signature, RuleFile[RuleType]]] = OrderedDict()

    def rules(self, folder: Path | None, tenant: str) -> list[Versioned[RuleType]]:
        """The enabled rules for the tenant of slug ``tenant``, the one that goes first first.

        Raises:
            InvalidRules: a file is wrong, with everything that is.
            UnreadableRules: the folder does not exist, or something in it cannot be read.
        """
        folder = self._existing(folder)
        slugs = dict.fromkeys((tenant, DEFAULT))
        files = [self._file(folder / f"{slug}.yaml") for slug in slugs]
        problems = tuple(problem for file in files for problem in file.problems)
        if problems:
            raise InvalidRules(problems)
        merged: dict[str, Versioned[RuleType]] = {}
        for file in files:
            for versioned in file.rules:
                merged.setdefault(versioned.rule.name, versioned)
        return [versioned for versioned in merged.values() if versioned.rule.enabled]

    def check(self, folder: Path | None) -> list[str]:
        """All that is wrong with any ``*.yaml`` of the folder, for doctor; raises UnreadableRules."""
        folder = self._existing(folder)
        return [problem for path in sorted(folder.glob("*.yaml")) for problem in self._file(path).problems]

    def _existing(self, folder: Path | None) -> Path:
        folder = folder or packaged_conf() / self._packaged
        if not folder.is_dir():
            raise UnreadableRules(f"the folder of {self._packaged} rules does not exist: {one_line(str(folder))}")
        return folder

    def _file(self, path: Path) -> RuleFile[RuleType]:
        try:
            status = path.stat()
            known = self._files.get(path)
            if known is not None and known[0] == _signature(status):
                self._files.move_to_end(path)
                return known[1]
            if not stat.S_ISREG(status.st_mode):
                return RuleFile(problems=(f"{one_line(str(path))}: is not a file",))
            with path.open("rb") as stream:
                signature = _signature(os.fstat(stream.fileno()))
                content = stream.read(MAX_FILE_BYTES + 1)
        except FileNotFoundError:
            self._files.pop(path, None)
            return RuleFile()
        except OSError as error:
            raise UnreadableRules(f"{one_line(str(path))} cannot be read: {error.strerror}") from error
        file = read(content, str(path), self._model)
        self._files[path] = (signature, file)
        if len(self._files) > MAX_CACHED_FILES:
            self._files.popitem(last=False)
        return file


def _signature(status: os.stat_result) -> Signature:
    return status.st_mtime_ns, status.st_size, status.st_ino
