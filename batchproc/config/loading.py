"""Loads the settings: the packaged defaults, a file laid over them, the environment, flags; later ones win.

Everything wrong is reported at once, each with its place and key: ``conf/batchproc.yaml:12: pool.workers: must be at
least 1``. No message quotes a value. Only the command line imports this module; the rest is handed the values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

from pydantic import ValidationError

from batchproc.config.layers import Layer, environment_layer, file_layer, flag_layer
from batchproc.config.problems import lines, refusal, sections
from batchproc.core.errors import UsageError
from batchproc.packaged import packaged_conf
from batchproc.settings import Settings


class SettingsError(UsageError):
    """The settings cannot be used; ``problems`` has one line for each thing that is wrong."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


def load(path: Path | None, environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """The settings in force.

    Relative paths in a file are relative to the file's folder, elsewhere to the current one; ``~`` is expanded.

    Args:
        path: the file given as ``--conf``; else ``BATCHPROC_CONF`` in ``environ``; else only the packaged defaults.
        environ: the environment; see `batchproc.config.layers.environment_layer`.
        overrides: flags by dotted name, ``{"pool.workers": 4}``; None as a value means not given.

    Raises:
        SettingsError: all that is wrong, in files, the environment and flags.
    """
    if path is None and (named := environ.get("BATCHPROC_CONF")) is not None:
        if not named.strip():
            raise SettingsError(["BATCHPROC_CONF: is empty: give a settings file, or unset it"])
        path = Path(named)
    layers = [file_layer(given) for given in _files(path)]
    layers += [environment_layer(environ, Settings.model_fields), flag_layer(overrides or {})]

    values: dict[str, Any] = {}
    problems = []
    for layer in layers:
        _anchor_paths(layer)
        _overlay(values, layer.values)
        problems += layer.problems
    try:
        settings = Settings.model_validate(values, context={"cpus": cpus_available()})
    except ValidationError as error:
        sources = [layer.places for layer in reversed(layers)]
        problems += [refusal(detail, sources) for detail in error.errors(include_url=False)]
    if problems:
        raise SettingsError(lines(problems))
    return settings


def _files(path: Path | None) -> Iterator[Path]:
    """The files to read, the one that wins last; the packaged one once, also when it is given."""
    packaged = packaged_conf() / "batchproc.yaml"
    given = None if path is None else _expanded(path)
    if given is None or not _is_same(packaged, given):
        yield packaged
    if given is not None:
        yield given


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):
        return False


def worker_count(settings: Settings) -> int:
    """How many workers ``pool.workers`` means on this machine."""
    return cpus_available() if settings.pool.workers == "auto" else settings.pool.workers


def cpus_available(cgroups: Path = Path("/proc/self/cgroup"), mount: Path = Path("/sys/fs/cgroup")) -> int:
    """The CPUs this process may use, at least 1: its affinity, bounded by the CPU quota of its cgroup (v2 or v1).

    A part of a CPU counts as one, so that no share of the machine is left idle. Sources: cgroup-v2.rst (``cpu.max``)
    and sched-bwc.rst (``cpu.cfs_quota_us``) of the Linux kernel's documentation.
    """
    cpus = len(os.sched_getaffinity(0))
    for quota in _cpu_quotas(cgroups, mount):
        cpus = min(cpus, math.ceil(quota))
    return max(1, cpus)


def _cpu_quotas(cgroups: Path, mount: Path) -> Iterator[float]:
    """The quotas, in CPUs, of the process's group and of all groups above it: each of them bounds it."""
    try:
        lines = cgroups.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, group = rest.partition(":")
        if controllers and "cpu" not in controllers.split(","):
            continue
        for root in (mount, mount / "unified") if not controllers else (mount / controllers, mount / "cpu"):
            folder = root / group.strip("/")
            while folder.is_relative_to(root):
                numbers = _numbers(folder / "cpu.max")
                if not numbers:
                    numbers = _numbers(folder / "cpu.cfs_quota_us") + _numbers(folder / "cpu.cfs_period_us")
                if len(numbers) == 2 and min(numbers) > 0:
                    yield numbers[0] / numbers[1]
                folder = folder.parent


def _numbers(path: Path) -> list[int]:
    """The whole numbers in a file, none if it is not there; ``max`` is no number."""
    try:
        return [int(word) for word in path.read_text().split() if word.lstrip("-").isdigit()]
    except (OSError, UnicodeDecodeError):
        return []


def _expanded(path: Path) -> Path:
    try:
        return path.expanduser()
    except RuntimeError:  # no such user: reported as a file that is not there
        return path


def _overlay(base: dict[str, Any], top: Mapping[str, Any]) -> None:
    """Lay ``top`` over ``base``, section by section. A section whose settings are all commented out changes nothing."""
    for name, value in top.items():
        current = base.get(name)
        if isinstance(current, dict) and value is None:
            continue
        if isinstance(current, dict) and isinstance(value, dict):
            _overlay(current, value)
        else:
            base[name] = value
            if isinstance(value, dict):
                base[name] = {}
                _overlay(base[name], value)


def _anchor_paths(layer: Layer) -> None:
    """Make the relative paths of a layer absolute."""

    def anchored(value: object) -> object:
        if not isinstance(value, str) or not value:
            return value
        path = _expanded(Path(value))
        return str(path if path.is_absolute() else (layer.folder or Path.cwd()) / path)

    for section, name in _path_settings():
        values = layer.values.get(section)
        if isinstance(values, dict) and name in values:
            value = values[name]
            values[name] = [anchored(item) for item in value] if isinstance(value, list) else anchored(value)


def _path_settings() -> Iterator[tuple[str, str]]:
    for section, model in sections(Settings):
        for name, field in model.model_fields.items():
            if Path in _types_in(field.annotation):
                yield section, field.alias or name


def _types_in(annotation: object) -> Iterator[object]:
    yield annotation
    for argument in get_args(annotation):
        yield from _types_in(argument)
