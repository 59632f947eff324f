"""The sources of settings, each read into a `Layer`: nested values, the place of every key, and what is wrong.

Places are what a person can go to: ``conf/batchproc.yaml:12``, ``BATCHPROC_POOL__WORKERS``, ``--workers``. Values are
not judged here beyond what YAML itself demands; problems are collected, never raised one at a time, and never quote
a value, which may be a password.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from batchproc.config.problems import Place, Problem
from batchproc.core.shown_text import one_line
from batchproc.yaml_lines import Key, parse

MAX_FILE_BYTES = 1_000_000
ENVIRONMENT_PREFIX = "BATCHPROC_"
RESERVED_VARIABLES = frozenset(f"BATCHPROC_{name}" for name in ("HOME", "CONF", "DATABASE_URL", "SLOT"))
_URLS = (("database", "url"), ("database", "direct_url"))
_FLAGS = {"database.url": "--database", "logging.level": "-v or -q"}


@dataclass(slots=True)
class Layer:
    """What one source sets. Relative paths in it are meant relative to ``folder``, None being the current one."""

    values: dict[str, Any] = field(default_factory=dict)
    places: dict[Key, Place] = field(default_factory=dict)
    problems: list[Problem] = field(default_factory=list)
    folder: Path | None = None

    def put(self, key: Key, value: object, place: Place) -> None:
        """Set one key, making the sections it lies in; what those are named by is the same place."""
        section = self.values
        for depth, name in enumerate(key[:-1], 1):
            if key[:depth] not in self.places:
                self.places[key[:depth]] = place
            inner = section.get(str(name))
            if not isinstance(inner, dict):
                inner = section[str(name)] = {}
            section = inner
        section[str(key[-1])] = value
        self.places[key] = place


def file_layer(path: Path) -> Layer:
    """The settings file at ``path``; relative paths in it are relative to its folder."""
    layer = Layer(folder=Path(os.path.abspath(path)).parent)  # noqa: PTH100  # Path.resolve would follow links
    source = one_line(str(path))
    try:
        text = _read(path)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        layer.problems.append(Problem(Place(source), (), f"cannot read these settings: {reason}"))
        return layer
    content = _yaml(layer, text, Place(source), ())
    if isinstance(content, dict):
        layer.values = content
    elif content is not None:
        layer.problems.append(Problem(Place(source, 1), (), "must hold sections such as pool: or ocr:"))
    return layer


def environment_layer(environ: Mapping[str, str], top_level: Iterable[str]) -> Layer:
    """Variables such as ``BATCHPROC_POOL__WORKERS``, their values read as YAML.

    A variable without two underscores is a setting only when it names one of ``top_level``; the reserved ones and
    ``BATCHPROC_TEST_*`` never are, but ``BATCHPROC_DATABASE_URL`` sets ``database.url``, as it stands: also an empty
    one, which is refused as a URL.
    """
    layer = Layer()
    for variable in sorted(environ):
        name = variable.removeprefix(ENVIRONMENT_PREFIX)
        if name == variable or variable in RESERVED_VARIABLES or name.startswith("TEST_"):
            continue
        key = tuple(name.lower().split("__"))
        if len(key) == 1 and key[0] not in top_level:
            continue
        place = Place(one_line(variable, limit=120), key=key)
        if not all(key):
            layer.problems.append(Problem(place, (), "is not a setting: write BATCHPROC_SECTION__NAME"))
            continue
        problems = len(layer.problems)
        value = _yaml(layer, environ[variable], place, key)
        if len(layer.problems) == problems:
            # To YAML that is none: an unset variable of a shell would choose the embedded database.
            is_empty_url = key in _URLS and not environ[variable].strip()
            layer.put(key, "" if is_empty_url else value, place)
    if (url := environ.get("BATCHPROC_DATABASE_URL")) is not None:
        layer.put(("database", "url"), url, Place("BATCHPROC_DATABASE_URL", key=("database", "url")))
    return layer


def flag_layer(overrides: Mapping[str, Any]) -> Layer:
    """Flags of the command line as ``{"pool.workers": 4}``; None means not given."""
    layer = Layer()
    for name, value in overrides.items():
        if value is not None:
            key = tuple(name.split("."))
            flag = _FLAGS.get(name, "--" + str(key[-1]).replace("_", "-"))
            layer.put(key, value, Place(flag, key=key))
    return layer


def _read(path: Path) -> str:
    if not stat.S_ISREG(path.stat().st_mode):
        raise ValueError("not a file")
    with path.open("rb") as stream:
        content = stream.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise ValueError(f"more than {MAX_FILE_BYTES} bytes")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not UTF-8") from None


def _yaml(layer: Layer, text: str, place: Place, key: Key) -> Any:
    """The value in ``text``, which is that of ``key``; places and problems within it go to the layer."""
    parsed = parse(text)
    layer.places |= {(*key, *inner): place.at(line) for inner, line in parsed.lines.items()}
    for fault in parsed.faults:
        layer.problems.append(Problem(place.at(fault.line), (*key, *fault.key), fault.message))
    return parsed.value
