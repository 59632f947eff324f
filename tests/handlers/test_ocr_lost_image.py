"""A page that lacks a large image: its text is kept, and its document does not look whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from batchproc.database import connect
from tests.handlers.running_job import add_tenant
from tests.handlers.test_ocr import Job
from tests.ocr import drawn

TEXT = "The agreement was signed in Winchester"
HUGE = "/Width 35000/Height 35000/ColorSpace/DeviceGray/BitsPerComponent 8"
LACKING = drawn.PdfPage(drawn.shown(TEXT) + drawn.placed(0, 0, 612, 400), image=drawn.page(), image_dictionary=HUGE)
WHOLE = drawn.PdfPage(drawn.shown("A page with nothing else"))


@pytest.mark.parametrize(
    ("pages", "texts"), [([LACKING], [TEXT]), ([LACKING, WHOLE], [TEXT, "A page with nothing else"])]
)
def test_a_page_that_lacks_an_image_makes_its_document_partial_and_keeps_its_text(
    database_url: str, tmp_path: Path, pages: list[drawn.PdfPage], texts: list[str]
) -> None:
    file = tmp_path / "lacking.pdf"
    file.write_bytes(drawn.pdf(*pages))
    with connect(database_url) as connection:
        job = Job(connection, add_tenant(connection), file, tmp_path)
        result = job.run()
        assert result.partial
        assert [(failed.page, failed.code) for failed in result.failed_pages] == [(1, "too_large")]
        assert job.state() == ("partial", None)
        assert job.text() == texts
