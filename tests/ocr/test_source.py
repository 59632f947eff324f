from __future__ import annotations

import errno
import io
import os
import pickle
import struct
from pathlib import Path

import pytest

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.source import media_type, open_source
from tests.ocr import drawn
from tests.ocr.reading import fails_as, opened


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("PNG", "image/png"),
        ("JPEG", "image/jpeg"),
        ("GIF", "image/gif"),
        ("TIFF", "image/tiff"),
        ("PDF", "application/pdf"),
        ("WEBP", "image/webp"),
        ("BMP", "image/bmp"),
        ("JPEG2000", "image/jp2"),
    ],
)
def test_the_type_is_told_by_content(kind: str, expected: str) -> None:
    data = drawn.saved(drawn.page(), kind)
    assert media_type(data[:1024]) == expected
    with opened(data) as source:
        assert (source.media_type, source.page_count) == (expected, 1)


def brands(major: bytes, *compatible: bytes) -> bytes:
    body = major + bytes(4) + b"".join(compatible)
    return struct.pack(">I4s", 8 + len(body), b"ftyp") + body + bytes(40)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        (b"\xff\x4f\xff\x51\x00\x2f", "image/j2c"),
        (b"II+\x00", "image/tiff"),
        (b"MM\x00+", "image/tiff"),
        (brands(b"heic", b"mif1", b"heic"), "image/heic"),
        (brands(b"mif1", b"mif1", b"heic"), "image/heif"),
        (brands(b"mif1", b"mif1", b"avif"), None),
        (brands(b"isom", b"mp41"), None),
        (b"RIFF\x24\x00\x00\x00WAVEfmt ", None),
        (b"BM is how this letter begins, and goes on", None),
        (b"BM", None),
    ],
)
def test_signatures(head: bytes, expected: str | None) -> None:
    assert media_type(head) == expected


def test_a_pdf_header_may_come_late() -> None:
    assert media_type(b"junk " * 100 + b"%PDF-1.4") == "application/pdf"
    assert media_type(b" " * 2000 + b"%PDF-1.4") is None


@pytest.mark.parametrize("data", [b"Just some text.\n", b"/etc/passwd\n/etc/hostname\n", b"PK\x03\x04", b"II*"])
def test_other_content_is_unsupported(data: bytes) -> None:
    with fails_as("unsupported_type"), opened(data):
        pass


def test_no_bytes_and_too_many() -> None:
    with fails_as("empty_file"), opened(b""):
        pass
    with fails_as("too_large"), opened(b"%PDF-1.4" + b" " * 100, bounds=Bounds(max_bytes=100)):
        pass


@pytest.mark.parametrize(
    "data",
    [
        b"%PDF-1.4\nnothing else",
        b"\x89PNG\r\n\x1a\n????",
        b"II*\x00\x08\x00\x00\x00",
        b"GIF89a",
        b"RIFF\x04\x00\x00\x00WEBP",
        b"\xff\x4f\xff\x51\x00",
        b"\x00\x00\x00\x0cjP  \r\n\x87\n",
        b"BM" + bytes(12) + b"\x28\x00\x00\x00",
    ],
)
def test_damage_is_unreadable(data: bytes) -> None:
    with fails_as("unreadable_file"), opened(data):
        pass


@pytest.mark.parametrize("kind", ["PDF", "TIFF", "PNG"])
def test_the_callers_descriptor_is_neither_moved_nor_closed(tmp_path: Path, kind: str) -> None:
    file = tmp_path / "scan"
    options = {"compression": "tiff_deflate"} if kind == "TIFF" else {}
    file.write_bytes(drawn.saved(drawn.page(), kind, **options))
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.lseek(descriptor, 7, os.SEEK_SET)
        file.unlink()  # nothing is opened by name, so the name is not missed
        source = open_source(descriptor, bounds=Bounds())
        size = source.page(0).image(300).pixels.size
        source.close()
        source.close()
        assert size[0] >= 900
        assert os.lseek(descriptor, 0, os.SEEK_CUR) == 7
    finally:
        os.close(descriptor)


class FailingDisk(io.BytesIO):
    """Storage that answers for the beginning of a file only."""

    def __init__(self, data: bytes, good: int) -> None:
        super().__init__(data)
        self.good = good

    def read(self, size: int | None = -1, /) -> bytes:
        if self.tell() >= self.good:
            raise OSError(errno.EIO, "Input/output error")
        return super().read(min(size or 0, self.good - self.tell()))


@pytest.mark.parametrize("kind", ["PDF", "TIFF", "PNG", "JPEG", "BMP", "WEBP", "JPEG2000"])
def test_failing_storage_is_not_taken_for_a_damaged_file(kind: str) -> None:
    noisy = drawn.page().effect_spread(40)
    disk = FailingDisk(drawn.saved(noisy, kind), good=2000)
    with pytest.raises(OSError, match="Input/output") as caught:
        open_source(disk, bounds=Bounds()).page(0).image(300)
    assert caught.value.errno == errno.EIO


def test_a_failure_travels_between_processes() -> None:
    failure = pickle.loads(pickle.dumps(OcrFailure("too_large", "9 pages")))
    assert (failure.code, failure.detail) == ("too_large", "9 pages")


def test_an_undeclared_code_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="no_such_code"):
        OcrFailure("no_such_code")
