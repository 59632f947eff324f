"""What an ``ocr`` job may ask for, and how its pages are read therefore."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from batchproc.core import languages
from batchproc.core.keep import KeepPolicy
from batchproc.documents.current_revision import Retention
from batchproc.documents.languages import split_languages
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.ocr.page_text import PageOptions
from batchproc.setting_types import Languages, OcrMode


class OcrArgs(BaseModel, extra="forbid"):
    """What an ``ocr`` job may ask for; what it leaves out comes from the document, the tenant, the settings.

    ``pages``: ``failed`` reads the failed pages of the current revision only, and keeps the others as they are.
    """

    document_id: int
    pages: Literal["all", "failed"] = "all"
    mode: OcrMode | None = None
    languages: Languages | None = None
    keep: KeepPolicy | None = None
    trigger: Annotated[str, Field(max_length=100)] | None = None


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


def retention(ctx: Context, args: OcrArgs) -> Retention:
    """Which revision stays current and how many others are kept; of ``keep`` again the most special word there is."""
    settings = ctx.settings
    keep: KeepPolicy = args.keep or ctx.tenant_settings.get("keep") or settings.ocr.keep
    return Retention(keep=keep, revisions=settings.retention.revisions)
