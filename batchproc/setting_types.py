"""The kinds of values that settings are made of: durations, sizes, paths, URLs, languages, names.

Each is an annotated type for pydantic models. A refusal never quotes the value: it may be a password.
"""

from __future__ import annotations

import ipaddress
import math
import re
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr
from pydantic_core import PydanticCustomError

from batchproc.core import languages, rates
from batchproc.core.job import Lane
from batchproc.core.limits import LONGEST_DELAY

_DURATION_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|[smhd])\s*")
_LONGEST = 366 * 86400.0
_LARGEST = 2**63 - 1
_SIZE_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_SIZE_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([A-Za-z]*)")
_URL_HOSTS = re.compile(r"(?:(?:\[[0-9A-Fa-f:.%]+\]|[^:,\[\]]*)(?::\d{1,5})?(?:,|$))*")


def wrong(message: str, **context: str) -> PydanticCustomError:
    """The error of a validator whose text goes to a person as it is; ``context`` may refine the place."""
    return PydanticCustomError("setting", message, context)


def _like(pattern: str, message: str) -> AfterValidator:
    compiled = re.compile(pattern)

    def check(text: str) -> str:
        if not compiled.fullmatch(text):
            raise wrong(message)
        return text

    return AfterValidator(check)


def parse_duration(value: object) -> float:
    """Seconds from a number of them or from text such as ``5m``, ``1h30m``, ``90s``, ``500ms``, ``1d``.

    Raises:
        ValueError: anything else, negative, or longer than a year (pydantic's ``PydanticCustomError`` is one).
    """
    seconds = _seconds(value)
    if seconds > _LONGEST:
        raise wrong("must be at most a year")
    return seconds


def parse_rate(value: object) -> float:
    """Jobs a second from text such as ``10/s`` or ``600/m``; see ``batchproc.core.rates``.

    Raises:
        ValueError: anything else, or too fast.
    """
    try:
        return rates.parse_rate(value if isinstance(value, str) else "")
    except ValueError as error:
        raise wrong(str(error)) from None


def _ip_address(value: str) -> str:
    try:
        return str(ipaddress.ip_address(value))
    except ValueError:
        raise wrong("must be an IP address such as 127.0.0.1 or ::") from None


def parse_age(value: object) -> float:
    """As ``parse_duration``, of what may have to be kept for many years: up to a hundred.

    Raises:
        ValueError: anything else, negative, or longer than that.
    """
    seconds = _seconds(value)
    if seconds > LONGEST_DELAY:
        raise wrong("must be at most a hundred years")
    return seconds


def _seconds(value: object) -> float:
    seconds = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = float(max(-1, min(value, LONGEST_DELAY + 1)))  # whole numbers may be too large for a float
    elif isinstance(value, str):
        text = value.strip()
        parts = list(_DURATION_PART.finditer(text))
        if parts and "".join(part.group(0) for part in parts) == text:
            seconds = sum(float(part.group(1)) * _DURATION_UNITS[part.group(2)] for part in parts)
        elif re.fullmatch(r"\d+(\.\d+)?", text):
            seconds = float(text)
    if math.isnan(seconds):
        raise wrong("must be a number of seconds or a duration such as 500ms, 90s, 5m, 1h30m or 1d")
    if seconds < 0:
        raise wrong("must not be negative")
    return seconds


def parse_size(value: object) -> int:
    """Bytes from a number of them or from text such as ``500MB`` (10^6) or ``2GiB`` (2^30).

    Raises:
        ValueError: anything else (pydantic's ``PydanticCustomError`` is one).
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise wrong("must not be negative")
        return min(value, _LARGEST)
    if isinstance(value, str) and (found := _SIZE.fullmatch(value.strip())):
        factor = _SIZE_UNITS.get(found.group(2).upper())
        if factor is not None:
            return int(min(float(found.group(1)) * factor, _LARGEST))
    raise wrong("must be a number of bytes or a size such as 500MB or 2GiB")


def _parse_path(value: object) -> Path:
    if not isinstance(value, str | Path) or not str(value):
        raise wrong("must be a path")
    if "\0" in str(value):
        raise wrong("must be a path, and a path cannot hold a NUL character")
    path = Path(value)
    if not path.is_absolute():
        raise wrong("must be an absolute path")
    return path


def _check_url(secret: SecretStr) -> SecretStr:
    """Refuse what libpq would misread, without quoting it: psycopg's own message could show the password."""
    if not secret.get_secret_value().strip():
        raise wrong("is empty: leave it out, or give a URL such as postgresql://user:password@host:5432/name")
    scheme, separator, rest = secret.get_secret_value().partition("://")
    if not separator or scheme not in ("postgresql", "postgres"):
        raise wrong("must be a URL such as postgresql://user:password@host:5432/name")
    hosts = re.split(r"[/?]", rest, maxsplit=1)[0].rpartition("@")[2]
    if not _URL_HOSTS.fullmatch(hosts) or re.search(r"%(?![0-9A-Fa-f]{2})", rest):
        raise wrong("is not a valid URL: characters such as @ : / ? % in user or password must be percent-encoded")
    if re.search(r"[\x00-\x20\x7f]", rest):
        raise wrong("is not a valid URL: it holds a space or a control character")
    return secret


def parse_lane(value: object) -> Lane:
    """The lane of that name; `Lane` values pass.

    Raises:
        ValueError: anything else.
    """
    if isinstance(value, Lane):
        return value
    if isinstance(value, str) and value.upper() in Lane.__members__ and value.islower():
        return Lane[value.upper()]
    raise wrong("must be interactive or bulk")


def parse_workers(value: object) -> int | str:
    """``auto`` or 1 to 1000.

    Raises:
        ValueError: anything else.
    """
    if value == "auto":
        return "auto"
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong("must be a whole number, or auto")
    if value < 1:
        raise wrong("must be at least 1")
    if value > 1000:
        raise wrong("must be at most 1000")
    return value


def parse_brake(value: object) -> int | str:
    """``off`` or 1 to 10,000; YAML reads a bare ``off`` as false.

    Raises:
        ValueError: anything else.
    """
    if value is False or value == "off":
        return "off"
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong("must be a whole number, or off")
    if value < 1:
        raise wrong("must be at least 1, or off")
    if value > 10_000:
        raise wrong("must be at most 10000, or off")
    return value


def distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    """The values as they are.

    Raises:
        ValueError: one of them occurs twice.
    """
    if len(set(values)) < len(values):
        raise wrong("must not name anything twice")
    return values


def _auto_first(values: tuple[str, ...]) -> tuple[str, ...]:
    if languages.AUTO in values[1:]:
        raise wrong("must begin with auto, where it stands among them")
    return values


def _not_auto_alone(values: tuple[str, ...]) -> tuple[str, ...]:
    if values == (languages.AUTO,):
        raise wrong("must name the languages to choose from after auto, such as [auto, eng, deu]")
    return values


Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Float seconds, zero allowed; see `parse_duration`."""

Age = Annotated[float, BeforeValidator(parse_age)]
"""Float seconds, up to a hundred years; see `parse_age`."""

PositiveDuration = Annotated[Duration, Field(gt=0)]
"""Float seconds, more than zero; see `parse_duration`."""

Rate = Annotated[float, BeforeValidator(parse_rate)]
"""Float jobs a second; see `parse_rate`."""

Size = Annotated[int, BeforeValidator(parse_size)]
"""Bytes; see `parse_size`."""

AbsolutePath = Annotated[Path, BeforeValidator(_parse_path)]
"""An absolute path; ``batchproc.config`` makes it so for relative ones, by the place they are written in."""

StoredPath = Annotated[str, AfterValidator(lambda text: str(_parse_path(text)))]
"""An absolute path as text, as it is stored in a row."""

DatabaseUrl = Annotated[SecretStr, Field(strict=False), AfterValidator(_check_url)]
"""A libpq URL, kept secret in every repr."""

Language = Annotated[str, _like(languages.NAME, "must be a language such as eng or script/Latin")]
"""A language as Tesseract names it; it becomes part of a file name."""

Languages = Annotated[
    tuple[Language, ...],
    Field(strict=False, min_length=1, max_length=languages.MOST),
    AfterValidator(distinct),
    AfterValidator(_auto_first),
]
"""The most likely first; before them, ``auto`` detects which of them a text is in, see ``core.languages``."""

DefaultLanguages = Annotated[Languages, AfterValidator(_not_auto_alone)]
"""`Languages` where there are none to fall back on."""

OcrMode = Literal["skip", "redo", "force"]
"""What of a PDF's text layer counts: ``skip`` keeps a real one, ``redo`` what recognition missed, ``force`` nothing."""

_NAME = "must be a name of lower-case letters, digits and underscores"

Identifier = Annotated[str, _like(r"[a-z_][a-z0-9_]{0,62}", _NAME)]
"""A SQL identifier that needs no quotes."""

FailureCode = Annotated[str, _like(r"[a-z][a-z0-9_]{0,62}", _NAME)]

KindName = Annotated[str, _like(r"[a-z][a-z0-9_]{0,62}", _NAME)]

ModuleName = Annotated[
    str, _like(r"[^\W\d]\w*(\.[^\W\d]\w*)*", "must be the name of a Python module such as archive.handlers")
]

ExporterName = Annotated[str, _like(r"[a-z][a-z0-9_]{0,62}", "must be the name of an exporter such as otlp")]

IpAddress = Annotated[str, AfterValidator(_ip_address)]

Workers = Annotated[int | Literal["auto"], BeforeValidator(parse_workers)]

BrakeJobs = Annotated[int | Literal["off"], BeforeValidator(parse_brake)]

LaneByName = Annotated[Lane, BeforeValidator(parse_lane)]
