"""Versions of programs, compared by their numbers: 5.10.0 is newer than 5.9.1."""

from __future__ import annotations

import re

_VERSION = re.compile(r"[^\d]*(?P<release>\d+(?:\.\d+)*)[-_.]?(?P<rest>.*)", re.DOTALL | re.ASCII)
_BEFORE_RELEASE = ("dev", "alpha", "beta", "rc")
_NUMBER = re.compile(r"\d+", re.ASCII)

Key = tuple[tuple[int, ...], int, tuple[int, ...]]


def version_key(version: str) -> Key:
    """What versions sort by: the numbers, and of equal ones dev, alpha, beta and rc before the release.

    Zeros at the end of the numbers say nothing; numbers behind the release, as in ``5.5.4-12-g1234``, come after it.

    Raises:
        ValueError: there is no number in it.
    """
    found = _VERSION.match(version)
    if found is None:
        raise ValueError(f"{version!r} has no number")
    numbers = [int(number) for number in found["release"].split(".")]
    while numbers and numbers[-1] == 0:
        numbers.pop()
    rest = found["rest"].casefold()
    stages = [stage for stage, word in enumerate(_BEFORE_RELEASE) if rest.startswith(word)]
    stage = stages[0] if stages else len(_BEFORE_RELEASE)
    return tuple(numbers), stage, tuple(int(number) for number in _NUMBER.findall(rest))


def is_older(version: str, than: str) -> bool:
    """Whether ``version`` is older; one without any number is. Raises ValueError when ``than`` has none."""
    limit = version_key(than)
    try:
        return version_key(version) < limit
    except ValueError:
        return True
