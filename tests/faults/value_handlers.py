"""A kind that returns or raises what no handler should, each in a way of its own (``how``)."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, field_serializer

from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure, Snooze
from batchproc.handlers.registry import handler
from tests.faults.worker_handlers import How


class Mute(Exception):
    """Has no text, and cannot be pickled."""

    def __str__(self) -> str:
        raise SystemExit(1)

    __repr__ = __str__

    def __reduce__(self) -> Any:
        raise TypeError("cannot be pickled")


class Data(BaseModel):
    value: Any


class Refuses(BaseModel):
    value: int = 0

    @field_serializer("value")
    def no(self, _: int) -> int:
        raise RuntimeError("cannot be written")


class Endless(BaseModel):
    value: int = 0

    @field_serializer("value")
    def never(self, _: int) -> int:
        time.sleep(600)
        return 0


class Own(BaseException):
    """No Exception."""


def _raises(error: BaseException) -> Callable[[Context], Any]:
    def act(_: Context) -> Any:
        raise error

    return act


def _returns(value: Any) -> Callable[[Context], Any]:
    return lambda _: value


def _chained(_: Context) -> Any:
    error: BaseException = ValueError("the first")
    for number in range(20_000):
        later = ValueError(number)
        later.__cause__ = error
        error = later
    raise error


def _cyclic(_: Context) -> Any:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    raise one


def _recursive(_: Context) -> Any:
    found = Data(value=None)
    found.value = [found]
    return found


def _nested(_: Context) -> Any:
    deep: Any = None
    for _level in range(100_000):
        deep = [deep]
    return Data(value=deep)


def _follows(*arguments: Any, **named: Any) -> Callable[[Context], Any]:
    return lambda ctx: ctx.follow_up(*arguments, **named)


def _follow_ups(ctx: Context) -> None:
    for _ in range(5_000):
        ctx.follow_up("t_quick", {"x": "y" * 1000})


def _strange_failure(**changes: Any) -> Callable[[Context], Any]:
    failure = Failure("no_luck", detail="page 3")
    for name, value in changes.items():
        setattr(failure, name, value)
    return _raises(failure)


def _strange_snooze(seconds: Any) -> Callable[[Context], Any]:
    snooze = Snooze(1)
    snooze.seconds = seconds
    return _raises(snooze)


def _strange_progress(ctx: Context) -> Any:
    for number in (float("nan"), float("inf"), -float("inf"), -1, 10**30, "many", None):
        ctx.progress(number, number)  # type: ignore[arg-type] # on purpose
    return Data(value="done")


INTERNAL = ("discarded", "internal_error")
COMPLETED = ("completed", None)
LARGE = ("discarded", "result_too_large")
DIRTY = "a\0b\ud800c"
VALUES: dict[str, tuple[Callable[[Context], Any], tuple[str, str | None]]] = {
    "not to be pickled": (_returns(lambda: None), INTERNAL),
    "a result with what cannot be written": (_returns(Data(value=object())), INTERNAL),
    "an exception without a text": (_raises(Mute()), INTERNAL),
    "a long chain of exceptions": (_chained, INTERNAL),
    "a cyclic chain of exceptions": (_cyclic, INTERNAL),
    "a long text": (_raises(ValueError("x" * 5_000_000)), INTERNAL),
    "a long dirty text": (_raises(ValueError(DIRTY * 1_000_000)), INTERNAL),
    "a long name": (_raises(type("Long" * 100_000, (Exception,), {})()), INTERNAL),
    "SystemExit": (_raises(SystemExit(0)), INTERNAL),
    "KeyboardInterrupt": (_raises(KeyboardInterrupt()), INTERNAL),
    "GeneratorExit": (_raises(GeneratorExit()), INTERNAL),
    "BaseException": (_raises(Own()), INTERNAL),
    "20 MB": (_returns(Data(value="x" * 20_000_000)), LARGE),
    "no model": (_returns({"value": 1}), INTERNAL),
    "a model that cannot be written": (_returns(Refuses()), INTERNAL),
    "a model that is never written": (_returns(Endless()), ("discarded", "timeout")),
    "a model that holds itself": (_recursive, INTERNAL),
    "a deep model": (_nested, INTERNAL),
    "NaN": (_returns(Data(value=float("nan"))), COMPLETED),
    "dirty text": (_returns(Data(value={DIRTY: [DIRTY]})), COMPLETED),
    "dirty bytes": (_returns(Data(value=b"a\xff\0b")), COMPLETED),
    "a dirty path": (_returns(Data(value=Path("a\udcffb"))), COMPLETED),
    "progress": (_strange_progress, COMPLETED),
    "a follow-up with dirty text": (_follows("t_quick", {"x": DIRTY}, unique=f"{DIRTY}key"), COMPLETED),
    "a follow-up with bytes": (_follows("t_quick", {"x": b"a\xff"}), COMPLETED),
    "a follow-up with NaN": (_follows("t_quick", {"x": float("nan")}), INTERNAL),
    "a follow-up with an object": (_follows("t_quick", {"x": object()}), INTERNAL),
    "a follow-up without a dictionary": (_follows("t_quick", [1]), INTERNAL),
    "a follow-up of no kind": (_follows("No Kind!"), INTERNAL),
    "a follow-up with half a kind": (_follows(7), INTERNAL),
    "a follow-up with a strange document": (_follows("t_quick", document_id=2**70), INTERNAL),
    "a follow-up with a document that is none": (_follows("t_quick", document_id="x"), INTERNAL),
    "a follow-up with a long key": (_follows("t_quick", unique="x" * 1_000), INTERNAL),
    "too many follow-ups": (_follow_ups, LARGE),
    "a failure with a dirty detail": (_strange_failure(detail=DIRTY * 10_000), ("discarded", "no_luck")),
    "a failure with a strange detail": (_strange_failure(detail=Mute()), ("discarded", "no_luck")),
    "a failure with a number as its detail": (_strange_failure(detail=5), ("discarded", "no_luck")),
    "a failure with a strange code": (_strange_failure(code=["x"]), INTERNAL),
    "a failure with a dirty code": (_strange_failure(code=DIRTY), INTERNAL),
    "a snooze of NaN": (_strange_snooze(float("nan")), INTERNAL),
    "a snooze of text": (_strange_snooze("soon"), INTERNAL),
    "a snooze of nothing": (_strange_snooze(None), INTERNAL),
    "an endless snooze": (_strange_snooze(float("inf")), ("scheduled", None)),
    "a huge snooze": (_strange_snooze(10**400), ("scheduled", None)),
    "a snooze into the past": (_strange_snooze(-float("inf")), ("scheduled", None)),
}
"""What a handler may give, and what becomes of its job."""


@handler("w_value", timeout=2, max_timeouts=1, failure_codes={"no_luck"})
def value(ctx: Context, args: How) -> Any:
    return VALUES[args.how][0](ctx)
