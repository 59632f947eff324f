"""A file for node_exporter's textfile collector, in which the runs of a machine go on counting where the last ended.

A counter that began at nothing with each night would show an increase only where a night did less than the one before:
to Prometheus a counter that has fallen was reset, and one that has risen has grown by the difference.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from loguru import logger
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from batchproc.whole_file import is_special, write_whole

_COUNTED = frozenset({"counter", "histogram"})
_LOCK_SECONDS = 10.0
"""Others hold the lock for milliseconds; one that was stopped in between holds it until it goes on."""
_LOCK_PAUSE = 0.02
Key = tuple[str, tuple[tuple[str, str], ...]]


class Textfile:
    """One process's share of the file; several may write it at a time.

    Args:
        own: what this process has counted since it started. Its gauges are left out: they are true while it runs, and
            of one of several processes.
        others: gauges, and counters that are the same whoever asks for them; written as they are.
    """

    def __init__(self, path: Path, own: CollectorRegistry, others: Collector) -> None:
        self._path = path
        self._own = own
        self._others = others
        self._written: dict[Key, float] = {}

    def write(self) -> None:
        """Adds what was counted since the last call to what the file has, and replaces it as a whole.

        Raises:
            OSError: the file, or the lock beside it, cannot be written; or another process holds that for too long.
        """
        others = list(self._others.collect())
        if is_special(self._path):  # nothing is kept there to go on from
            write_whole(self._path, generate_latest(_Fixed([*filter(_counts, self._own.collect()), *others])))
            return
        with self._alone():
            own = list(self._own.collect())
            counted = {_key(sample): sample.value for family in own if _counts(family) for sample in family.samples}
            before = self._read()
            merged = [_merged(family, before, self._written) for family in own if _counts(family)]
            # Its reader is another user; there is nothing private in it. And no collector reads the draft's name.
            write_whole(self._path, generate_latest(_Fixed([*merged, *others])), mode=0o644)
            self._written = counted

    def _read(self) -> list[Metric]:
        try:
            return list(text_string_to_metric_families(self._path.read_text("utf-8")))
        except FileNotFoundError:
            return []
        except ValueError:
            logger.warning("metrics.textfile {} cannot be read: its counters begin anew", str(self._path))
            return []

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        lock = os.open(self._path.with_name(f".{self._path.name}.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(lock)
            yield
        finally:
            os.close(lock)


def _lock(descriptor: int) -> None:
    give_up = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= give_up:
                raise OSError(errno.ETIMEDOUT, "another process holds its lock") from None
        time.sleep(_LOCK_PAUSE)


class _Fixed(CollectorRegistry):
    """What ``generate_latest`` takes: a registry that has these families."""

    def __init__(self, families: Iterable[Metric]) -> None:
        super().__init__()
        self._families = list(families)

    def collect(self) -> Iterator[Metric]:
        yield from self._families


def _merged(family: Metric, before: Iterable[Metric], written: dict[Key, float]) -> Metric:
    """The family's samples, each with what the file has of it added, but for what this process wrote there itself."""
    names = {family.name, f"{family.name}_total"}
    known = {_key(sample): sample for found in before if found.name in names for sample in found.samples}
    own = {_key(sample): sample for sample in family.samples}
    merged = Metric(family.name, family.documentation, family.type)
    for key, sample in {**known, **own}.items():
        value = known[key].value if key in known else 0.0
        if key in own:
            value += own[key].value - written.get(key, 0.0)
        merged.samples.append(Sample(sample.name, dict(sample.labels), value))
    # Buckets of one histogram have to stand together, in their order.
    merged.samples.sort(key=_order)
    return merged


def _order(sample: Sample) -> tuple[list[tuple[str, str]], str, float]:
    labels = [(name, value) for name, value in sorted(sample.labels.items()) if name != "le"]
    return labels, sample.name, float(sample.labels.get("le", "inf"))


def _counts(family: Metric) -> bool:
    return family.type in _COUNTED


def _key(sample: Sample) -> Key:
    return sample.name, tuple(sorted(sample.labels.items()))
