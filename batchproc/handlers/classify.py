"""Kind ``classify``: title and tags from the text that is stored already."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pydantic import BaseModel, Field

from batchproc.core.kinds import CLASSIFY, WORKFLOW
from batchproc.documents.store import Tag
from batchproc.handlers import title
from batchproc.handlers.context import Context
from batchproc.handlers.errors import Failure
from batchproc.handlers.registry import handler
from batchproc.handlers.rules.files import FAILURE_CODES, RuleFolder
from batchproc.handlers.rules.model import Versioned
from batchproc.handlers.rules.patterns import SearchText
from batchproc.handlers.rules.taxonomy import Finding, TaxonomyRule, apply
from batchproc.handlers.rules.version import version_of

LISTED_TAGS = 50

TAXONOMY = RuleFolder(TaxonomyRule, "taxonomy")
"""The taxonomy rules of this process, read once and again when a file changes."""


class ClassifyArgs(BaseModel, extra="forbid"):
    """``trigger`` is ``upload`` when the document has just been uploaded: then ``workflow`` follows."""

    trigger: str | None = Field(default=None, max_length=63)


class Classified(BaseModel):
    """What the document has now. ``tags`` are the first 50 of the ``tag_count`` that rules set."""

    title: str | None
    title_source: str | None
    tags: list[str]
    tag_count: int
    language: str | None


@handler(
    CLASSIFY,
    timeout=120,
    # A rule that gets no further in half a minute never will: a regex that backtracks without end.
    stall_timeout=30,
    failure_codes=FAILURE_CODES | {"no_document", "no_text"},
)
def classify(ctx: Context, args: ClassifyArgs) -> Classified:
    """Gives the document its title and the tags of the taxonomy rules.

    What a person set stays; of the tags, those that rules set before are replaced. Fails permanently as
    ``no_document``, ``no_text`` (no OCR yet) or ``invalid_rules``, transiently as ``rules_unreadable``.
    """
    if ctx.document_id is None:
        raise Failure("no_document", detail="classify works on a document: enqueue it with --document")
    document = ctx.document
    if document.current_revision is None:
        raise Failure("no_text", detail=f"document {document.document_id} has no text yet: enqueue ocr for it first")
    pages = ctx.documents.text(ctx.connection, document.document_id)
    rules = TAXONOMY.rules(ctx.settings.taxonomy.folder, ctx.tenant)
    findings = list(_findings(ctx, rules, pages))
    tags = _tags(findings)
    pdf_title = document.fields.get("pdf_title")
    chosen = title.choose(
        rule_titles=[finding.title for finding in findings if finding.title],
        pdf_title=pdf_title if isinstance(pdf_title, str) else None,
        first_page=pages[0] if pages else "",
        path=document.path,
    )
    shown = (document.title, document.title_source)
    with ctx.transaction() as connection:
        if chosen and ctx.documents.set_title(connection, document.document_id, chosen.text, chosen.source):
            shown = (chosen.text, chosen.source)
        ctx.documents.replace_rule_tags(connection, document.document_id, tags, source="rule")
        ctx.documents.set_rules_version(connection, document.document_id, version_of(rules))
    if args.trigger == "upload":
        ctx.follow_up(WORKFLOW, {"trigger": "upload"})
    return Classified(
        title=shown[0],
        title_source=shown[1],
        tags=[tag.tag for tag in tags[:LISTED_TAGS]],
        tag_count=len(tags),
        language=document.language,
    )


def _findings(ctx: Context, rules: Sequence[Versioned[TaxonomyRule]], pages: list[str]) -> Iterator[Finding]:
    """What the rules find, in their order. Progress counts rules, and so tells which one hangs."""
    text = SearchText(pages)
    if text.truncated:
        ctx.log.warning("the text is longer than rules look at; its end is left out")
    for done, versioned in enumerate(rules):
        ctx.progress(done, len(rules))
        finding = apply(versioned, text)
        if finding is not None:
            yield finding


def _tags(findings: list[Finding]) -> list[Tag]:
    """The tags in the order of the rules; of several rules that set the same one, the first counts."""
    tags: dict[str, Tag] = {}
    for finding in findings:
        for name in finding.tags:
            tags.setdefault(name, Tag(name, finding.rule, finding.version, finding.reason))
    return list(tags.values())
