"""Kind ``workflow``: what is done with a document once it is uploaded, read and classified."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

from pydantic import BaseModel, Field

from batchproc.core.kinds import WORKFLOW
from batchproc.documents.store import Tag
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.handlers.registry import handler
from batchproc.handlers.rules.files import FAILURE_CODES, RuleFolder
from batchproc.handlers.rules.workflow import Facts, Firing, WorkflowRule, apply
from batchproc.handlers.title import file_name

# Names of 63 characters that each take 12 in JSON still fit into a result of 64 kB.
LISTED = 25

WORKFLOWS = RuleFolder(WorkflowRule, "workflows")
"""The workflow rules of this process, read once and again when a file changes."""


class WorkflowArgs(BaseModel, extra="forbid"):
    """``trigger`` says what led here, such as ``upload``; the rules are the same."""

    trigger: str | None = Field(default=None, max_length=63)


class DoneAction(BaseModel):
    """One thing done: ``action`` is tag, set_field or enqueue, ``name`` the tag, the field or the kind."""

    rule: str
    action: str
    name: str


class WorkflowDone(BaseModel):
    """The rules that fired and what they did; the lists show the first 25."""

    rules: list[str]
    rule_count: int
    actions: list[DoneAction]
    action_count: int


@handler(
    WORKFLOW,
    timeout=120,
    stall_timeout=30,
    failure_codes=FAILURE_CODES | {"no_document"},
)
def workflow(ctx: Context, args: WorkflowArgs) -> WorkflowDone:  # noqa: ARG001  # the trigger is for the record
    """Applies the workflow rules: tags, fields, further jobs.

    The tags that workflow rules set before are replaced; fields are set and never taken away. Fails permanently as
    ``no_document`` or ``invalid_rules``, transiently as ``rules_unreadable``.
    """
    if ctx.document_id is None:
        raise Failure("no_document", detail="workflow works on a document: enqueue it with --document")
    firings = list(_firings(ctx))
    document_id = ctx.document.document_id
    tags: dict[str, Tag] = {}
    fields: dict[str, tuple[str, str]] = {}
    for firing in firings:
        for tag in firing.tags:
            tags.setdefault(tag, Tag(tag, firing.rule, firing.version, firing.reason))
        for name, value in firing.fields.items():
            fields.setdefault(name, (value, firing.rule))
    with ctx.transaction() as connection:
        ctx.documents.replace_rule_tags(connection, document_id, list(tags.values()), source="workflow")
        for name, (value, _) in fields.items():
            ctx.documents.set_field(connection, document_id, name, value)
    actions = [DoneAction(rule=tag.rule or "", action="tag", name=tag.tag) for tag in tags.values()]
    actions += [DoneAction(rule=rule, action="set_field", name=name) for name, (_, rule) in fields.items()]
    actions += _enqueue(ctx, firings)
    return WorkflowDone(
        rules=[firing.rule for firing in firings[:LISTED]],
        rule_count=len(firings),
        actions=actions[:LISTED],
        action_count=len(actions),
    )


def _firings(ctx: Context) -> Iterator[Firing]:
    """The rules that fire, in their order. Progress counts rules, and so tells which one hangs."""
    rules = WORKFLOWS.rules(ctx.settings.workflows.folder, ctx.tenant)
    document = ctx.document
    facts = Facts(
        document_id=document.document_id,
        tags=frozenset(
            tag.tag
            for tag in ctx.documents.tags(ctx.connection, document.document_id)
            if tag.source != "workflow"  # else what one run adds would change what the next one does
        ),
        title=document.title,
        file_name=file_name(document.path),
        media_type=document.media_type,
        language=document.language,
        page_count=document.page_count,
        external_id=document.external_id,
    )
    for done, versioned in enumerate(rules):
        ctx.progress(done, len(rules))
        firing = apply(versioned, facts)
        if firing is not None:
            yield firing


def _enqueue(ctx: Context, firings: list[Firing]) -> Iterator[DoneAction]:
    """Asks for the jobs of the rules, those of equal kind and args once, also while an earlier one waits."""
    asked: set[str] = set()
    for firing in firings:
        for job in firing.jobs:
            content = json.dumps([job.kind, job.args], sort_keys=True)
            unique = f"workflow-{ctx.document_id}-{hashlib.sha256(content.encode()).hexdigest()[:32]}"
            if unique not in asked:
                asked.add(unique)
                ctx.follow_up(job.kind, dict(job.args), unique=unique)
                yield DoneAction(rule=firing.rule, action="enqueue", name=job.kind)
