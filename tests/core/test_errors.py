"""What a person is shown, also when it crossed a process boundary."""

from __future__ import annotations

import copy
import pickle

import pytest

from batchproc.core.errors import BatchprocError, EnvironmentFault, UsageError


@pytest.mark.parametrize(("kind", "exit_code"), [(BatchprocError, 3), (UsageError, 2), (EnvironmentFault, 3)])
@pytest.mark.parametrize("hint", ["", "do that"])
def test_an_error_survives_pickling(kind: type[BatchprocError], exit_code: int, hint: str) -> None:
    error = kind("what happened", hint)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(twin) is kind
        assert (twin.message, twin.hint, twin.exit_code) == ("what happened", hint, exit_code)
        assert str(twin) == str(error)


def test_an_error_is_one_line_that_says_what_to_do() -> None:
    assert str(UsageError("there is no tenant 'x'", "add it")) == "there is no tenant 'x': add it"
    assert str(UsageError("there is no tenant 'x'")) == "there is no tenant 'x'"
