"""Import manifests: NDJSON, one file to import per line, with what the importing system knows of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from pydantic import AfterValidator, BaseModel, Field, ValidationError

from batchproc.core.errors import UsageError
from batchproc.core.limits import clean_text
from batchproc.documents.languages import HINT_CHARACTERS, hint_problem
from batchproc.documents.paths import display_path, path_from_text
from batchproc.ops import strict_json

LINE_BYTES = 1024 * 1024
MAX_BAD_LINES = 1000
"""A file with more of them is no manifest; each is told, and so has to be remembered."""


@dataclass(frozen=True, slots=True)
class ManifestEntry:
    """A line that could be read. ``path`` is absolute; relative ones start at the manifest's folder."""

    path: bytes
    external_id: str | None
    language: str | None
    title: str | None


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line that could not. ``place`` is ``MANIFEST:LINE``."""

    place: bytes
    reason: str


def _storable(text: str) -> str:
    if clean_text(text)[1]:
        raise ValueError("holds a character that cannot be stored")
    return text


def _path(text: str) -> str:
    if b"\0" in path_from_text(text):
        raise ValueError("a path cannot hold a NUL character")
    return text


def _hint(text: str) -> str:
    problem = hint_problem(text)
    if problem is not None:
        raise ValueError(problem)
    return text


class _Line(BaseModel, extra="forbid", strict=True, hide_input_in_errors=True):
    path: Annotated[str, Field(min_length=1), AfterValidator(_path)]
    external_id: Annotated[str, Field(min_length=1, max_length=500), AfterValidator(_storable)] | None = None
    language: Annotated[str, Field(max_length=HINT_CHARACTERS), AfterValidator(_hint)] | None = None
    title: Annotated[str, Field(min_length=1), AfterValidator(_storable)] | None = None


def read_manifest(manifest: bytes) -> Iterator[ManifestEntry | BadLine]:
    """The lines of a manifest in order, empty ones apart.

    Each is a JSON object with ``path`` (undecodable bytes written as ``\\xNN``, as listings show them), and, if
    known, ``external_id``, ``language`` (Tesseract's names joined by ``+``) and ``title``.

    Raises:
        UsageError: the manifest cannot be read.
    """
    folder = os.path.dirname(os.path.realpath(manifest))  # noqa: PTH120 - pathlib knows no bytes
    try:
        with open(manifest, "rb") as lines:  # noqa: PTH123 - as above
            number = bad = 0
            while line := lines.readline(LINE_BYTES + 1):
                number += 1
                place = manifest + b":%d" % number
                if len(line) > LINE_BYTES:
                    yield BadLine(place, f"longer than {LINE_BYTES} bytes; what follows it is not read")
                    return
                if not line.strip():
                    continue
                found = _read(line, folder, place)
                yield found
                bad += isinstance(found, BadLine)
                if bad == MAX_BAD_LINES:
                    yield BadLine(place, f"the {MAX_BAD_LINES}th bad line; what follows it is not read")
                    return
    except OSError as error:
        raise UsageError(
            f"the manifest {display_path(manifest)} cannot be read: {os.strerror(error.errno or 0)}",
            "give --manifest a readable file of one JSON object per line",
        ) from None


def _read(line: bytes, folder: bytes, place: bytes) -> ManifestEntry | BadLine:
    try:
        found = _Line.model_validate(strict_json.loads(line))
    except ValueError as error:
        return BadLine(place, _reason(error))
    path = os.path.join(folder, path_from_text(found.path))  # noqa: PTH118 - as above
    return ManifestEntry(path, found.external_id, found.language, found.title)


def _reason(error: Exception) -> str:
    if isinstance(error, ValidationError):
        return "; ".join(
            ".".join(str(part) for part in problem["loc"]) + f": {problem['msg']}" if problem["loc"] else problem["msg"]
            for problem in error.errors(include_url=False, include_input=False)
        )
    return f"no JSON object: {error}"
