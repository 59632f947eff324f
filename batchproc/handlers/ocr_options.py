"""What an ``ocr`` job may ask for, and how its pages are read therefore."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, Field

from batchproc.core import languages
from batchproc.core.keep import KeepPolicy
from batchproc.core.languages import AUTO
from batchproc.core.ranges import PageRange
from batchproc.documents.current_revision import Retention
from batchproc.documents.languages import split_languages
from batchproc.documents.revisions import RevisionSpec
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.ocr import detection
from batchproc.ocr.page_text import PREPARATION, PageOptions
from batchproc.ocr.tesseract import TesseractEngine
from batchproc.setting_types import Languages, OcrMode


def _ascending(pages: tuple[int, int]) -> tuple[int, int]:
    if not 1 <= pages[0] <= pages[1]:
        raise ValueError("must be the first and the last page, counted from 1")
    return pages


class OcrArgs(BaseModel, extra="forbid"):
    """What an ``ocr`` job may ask for; what it leaves out comes from the document, the tenant, the settings.

    ``pages``: ``failed`` reads the failed pages of the current revision only, and keeps the others as they are.
    ``pilot`` reads to look at the result: it does not become current, and of the document nothing changes.
    ``range`` is for the jobs that a large document is split into: the first and last page of one of them, or ``join``.
    """

    document_id: int
    pages: Literal["all", "failed"] = "all"
    mode: OcrMode | None = None
    languages: Languages | None = None
    keep: KeepPolicy | None = None
    pilot: bool = False
    trigger: Annotated[str, Field(max_length=100)] | None = None
    range: Annotated[tuple[int, int], AfterValidator(_ascending)] | Literal["join"] | None = None

    def of_range(self, pages: PageRange, options: PageOptions) -> dict[str, Any]:
        """The args of the job that reads these pages: it is claimed where ``options`` can be met."""
        args = self.model_dump(mode="json", exclude_defaults=True, exclude={"document_id"})
        asked = [AUTO, *options.languages] if options.detect else list(options.languages)
        if languages.problem(asked) is None:
            args["languages"] = asked
        return args | {"range": list(pages)}


def page_options(ctx: Context, document: Document, args: OcrArgs) -> PageOptions:
    """Of each option the most special word there is: the job's, the document's, the tenant's, the settings'."""
    settings = ctx.settings.ocr
    hinted = split_languages(document.language) if document.language else ()
    wanted = languages.wanted(args.languages or hinted, ctx.tenant_settings.get("languages"), settings.languages)
    return PageOptions(
        languages=wanted.languages,
        mode=args.mode or ctx.tenant_settings.get("mode") or settings.mode,
        dpi=settings.dpi,
        orientation=settings.orientation,
        detect=wanted.detect,
    )


def spec_of(engine: TesseractEngine, options: PageOptions, source_sha256: bytes, page_count: int) -> RevisionSpec:
    """What the text will be decided by if this engine reads the document with these options."""
    profile: dict[str, Any] = {"mode": options.mode, "dpi": options.dpi, "orientation": options.orientation}
    if options.detect:
        profile["detect"] = detection.version()
    return RevisionSpec(
        engine=engine.name,
        engine_version=engine.version,
        data_hash=engine.data_hash_of(options.languages),
        profile=profile | {"preparation": PREPARATION},
        languages=options.languages,
        source_sha256=source_sha256,
        page_count=page_count,
    )


def options_of(spec: RevisionSpec) -> PageOptions:
    """The options that a revision was begun with, as `spec_of` stored them; another release's as far as known here."""
    known = {name: spec.profile[name] for name in ("mode", "dpi", "orientation") if name in spec.profile}
    return PageOptions(languages=spec.languages, detect="detect" in spec.profile, **known)


def asks_otherwise(args: OcrArgs, options: PageOptions) -> bool:
    """Whether the job itself asks for other than these options; those it says nothing of may be any."""
    if args.mode is not None and args.mode != options.mode:
        return True
    if args.languages is None:
        return False
    asked = languages.wanted(args.languages)
    return asked.detect != options.detect or (bool(asked.languages) and asked.languages != options.languages)


def retention(ctx: Context, args: OcrArgs) -> Retention:
    """Which revision stays current and how many others are kept; of ``keep`` again the most special word there is."""
    settings = ctx.settings
    keep: KeepPolicy = args.keep or ctx.tenant_settings.get("keep") or settings.ocr.keep
    return Retention(keep=keep, revisions=settings.retention.revisions)
