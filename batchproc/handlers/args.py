"""Args of a job as the model of its kind, at enqueue and again at run."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ValidationError

from batchproc.core.limits import DETAIL_CHARACTERS, bounded_text
from batchproc.handlers.registry import Handler


def validated_args(entry: Handler, args: dict[str, Any], document_id: int | None) -> BaseModel:
    """The args as the kind's model; a ``document_id`` field that is not given is the job's own document.

    Raises:
        ValidationError: the args do not fit the model.
    """
    if document_id is not None and "document_id" in entry.args_model.model_fields:
        args = {"document_id": document_id, **args}
    return entry.args_model.model_validate(args)


def describe_invalid(error: ValidationError) -> str:
    """What is wrong with args, without their values: they may hold what must not be shown."""
    problems = (
        f"{'.'.join(str(part) for part in problem['loc']) or 'args'}: {problem['msg']}"
        for problem in error.errors(include_input=False, include_url=False, include_context=False)
    )
    return bounded_text("; ".join(problems), DETAIL_CHARACTERS) or "invalid"
