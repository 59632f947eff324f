"""What failed, in lines for a screen: groups of one tenant and code, with a few of each."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

from rich.cells import cell_len, set_cell_size

from batchproc.core.shown_text import one_line
from batchproc.documents.paths import terminal_path
from batchproc.ops.advice import advice

WIDTH = 80
EXAMPLES = 3
NAMED_TENANTS = 3
"""So many tenants are named of whom no group has found room."""
# With more groups than this one example of each has to do, so that all stays on one screen.
_MANY_GROUPS = 3
_DETAIL = 80
_INDENT = "    "


def failure_lines(rows: Sequence[dict[str, Any]], groups: int, examples: int, report: str) -> list[str]:
    """So many groups of the rows of ``RunHistory.failures``, as entries with line breaks in them.

    Args:
        report: the command that tells of all of them.
    """
    found = [list(group) for _, group in groupby(rows, key=itemgetter("tenant", "state", "failure_code"))]
    shown = found[:groups]
    each = min(examples, EXAMPLES if len(shown) <= _MANY_GROUPS else 1)
    text = [_group(group, each) for group in shown]
    if rows and (more := rows[0]["groups"] - len(shown)) > 0:
        text.append(f"and {many(more, 'more such group')}{_other_tenants(found, groups)}: {report}")
    return text


def example(
    job_id: int, kind: str, document_id: int | None, path: str | None, detail: str | None, width: int | None = None
) -> str:
    """One failure on a line: the job, its document and, where the handler said more than a code, what.

    Args:
        path: printable. It says most at its end, and is cut at its start.
        width: terminal cells that it may take, None for as many as the path needs.
    """
    what = f"job {job_id} {kind}" + ("" if document_id is None else f" document {document_id}")
    said = "" if not detail else f" ({one_line(detail, _DETAIL)})"
    shown = "" if path is None else f" {path}"
    if width is None:
        return what + shown + said
    room = max(0, width - cell_len(what))
    if cell_len(shown) + cell_len(said) > room:
        said = _cut(said, max(room // 2, room - cell_len(shown)), ")" if said else "")
        shown = _cut_at_start(shown, room - cell_len(said))
    return _cut(what + shown + said, width)


def many(number: int, one: str) -> str:
    """``1 job``, ``2 jobs``."""
    return f"{number:,} {one}" + ("" if number == 1 else "s")


def _other_tenants(found: Sequence[Sequence[dict[str, Any]]], groups: int) -> str:
    """Whom the groups beyond those concern, when none of theirs is shown."""
    shown = {group[0]["tenant"] for group in found[:groups]}
    others = list(dict.fromkeys(group[0]["tenant"] for group in found[groups:] if group[0]["tenant"] not in shown))
    named = others[:NAMED_TENANTS]
    unnamed = found[0][0]["tenants"] - len(shown) - len(named)
    if not named:
        return ""
    told = ", ".join(named)
    return f", also of {told}" + (f" and {many(unnamed, 'other tenant')}" if unnamed > 0 else "")


def _group(rows: Sequence[dict[str, Any]], examples: int) -> str:
    first = rows[0]
    tenant, code, jobs = first["tenant"], first["failure_code"] or "internal_error", first["jobs"]
    if first["state"] == "discarded":
        what = f"{many(jobs, 'job')} failed: {code}"
        more = f"batchproc jobs list --tenant {tenant} --state discarded --failure-code {code}"
    else:
        what = f"{many(jobs, 'document')} partial, {many(first['failed_pages'] or 0, 'page')} failed: {code}"
        more = f"batchproc documents list --tenant {tenant} --status partial"
    named = rows[:examples]
    unnamed = jobs - len(named)
    suffix = f" and {unnamed:,} more" if unnamed > 0 and examples == 1 else ""
    text = [f"{tenant}: {what}: {advice(code, first)}"]
    text += [_INDENT + _example(row, WIDTH - len(_INDENT) - len(suffix)) + suffix for row in named]
    if unnamed > 0 and not suffix:
        text.append(f"{_INDENT}and {unnamed:,} more: {more}")
    return "\n".join(text)


def _example(row: dict[str, Any], width: int) -> str:
    path = None if row["path"] is None else terminal_path(row["path"])
    return example(row["job_id"], row["kind"], row["document_id"], path, row["detail"], width)


def _cut(text: str, cells: int, end: str = "") -> str:
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, max(0, cells - 1 - len(end))) + "…" + end if cells > len(end) else ""


def _cut_at_start(text: str, cells: int) -> str:
    """With the blank before it."""
    if cell_len(text) <= cells:
        return text
    taken, start = 2, len(text)
    while start and (taken := taken + cell_len(text[start - 1])) <= cells:
        start -= 1
    return f" …{text[start:]}" if start < len(text) else ""
