"""What an ``ocr`` job may ask for, and how its pages are read therefore."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from batchproc.documents.languages import split_languages
from batchproc.documents.store import Document
from batchproc.handlers.context import Context
from batchproc.ocr.page_text import PageOptions
from batchproc.setting_types import Language


class OcrArgs(BaseModel, extra="forbid"):
    """What an ``ocr`` job may ask for; what it leaves out comes from the document, the tenant, the settings."""

    document_id: int
    mode: Literal["skip", "redo"] | None = None
    languages: Annotated[list[Language], Field(min_length=1)] | None = None
    trigger: Annotated[str, Field(max_length=100)] | None = None


def page_options(ctx: Context, document: Document, args: OcrArgs) -> PageOptions:
    """Of each option the most special word there is: the job's, the document's, the tenant's, the settings'."""
    settings = ctx.settings.ocr
    hinted = split_languages(document.language) if document.language else ()
    languages = args.languages or hinted or ctx.tenant_settings.get("languages") or settings.languages
    return PageOptions(
        languages=tuple(languages),
        mode=args.mode or ctx.tenant_settings.get("mode") or settings.mode,
        dpi=settings.dpi,
        orientation=settings.orientation,
    )
