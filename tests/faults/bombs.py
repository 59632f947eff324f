"""Small files that ask for far more time, memory or depth than any document needs; made by code, byte for byte."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable

from tests.ocr import drawn

_MEGABYTE = 1 << 20
_CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
_GREY = "/Type/XObject/Subtype/Image/ColorSpace/DeviceGray/BitsPerComponent 8"
_FORM = "/Type/XObject/Subtype/Form/BBox[0 0 999 999]"


def form_within_itself() -> bytes:
    """A form that shows itself a thousand times: pdfium follows it until the memory is gone."""
    inner = drawn.pdf_stream(f"{_FORM}/Resources<</XObject<</F 5 0 R>>>>", b"/F Do " * 1000)
    return _page(b"/F Do", "/XObject<</F 5 0 R>>", inner)


def forms_within_forms() -> bytes:
    """Twelve forms, each ten times in the one before."""
    forms = [
        drawn.pdf_stream(f"{_FORM}/Resources<</XObject<</F {number} 0 R>>>>", b"/F Do " * 10) for number in range(6, 18)
    ]
    return _page(b"/F Do", "/XObject<</F 5 0 R>>", *forms, drawn.pdf_stream(_FORM, b"0 0 9 9 re f"))


def endless_pattern() -> bytes:
    """A page filled with tiles of a thousandth of a point."""
    tile = "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 1 1]/XStep 0.001/YStep 0.001/Resources<<>>"
    return _page(
        b"/Pattern cs /P scn 0 0 600 700 re f", "/Pattern<</P 5 0 R>>", drawn.pdf_stream(tile, b"0 0 1 1 re f")
    )


def packed_blanks() -> bytes:
    """A page of two hundred megabytes of blanks, packed twice into a kilobyte."""
    packed = zlib.compress(zlib.compress(b" " * (200 * _MEGABYTE), 9), 9)
    return _page(packed, "", filters="/Filter[/FlateDecode/FlateDecode]")


def circular_page_tree() -> bytes:
    """Pages that are their own grandparents."""
    return drawn.pdf_file(
        [
            _CATALOG,
            b"<</Type/Pages/Count 3/Kids[3 0 R 2 0 R]>>",
            b"<</Type/Pages/Count 2/Kids[2 0 R 3 0 R]/Parent 3 0 R>>",
        ]
    )


def deep_page_tree() -> bytes:
    """Lists within lists, two hundred thousand deep."""
    kids = b"[" * 200_000 + b"3 0 R" + b"]" * 200_000
    return drawn.pdf_file([_CATALOG, b"<</Type/Pages/Count 1/Kids" + kids + b">>"])


def promised_pages() -> bytes:
    """A hundred pages by its own count, of which there is one."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>"
    return drawn.pdf_file([_CATALOG, b"<</Type/Pages/Count 100/Kids[3 0 R]>>", page])


def huge_sheet() -> bytes:
    """A page of two thousand million points."""
    return drawn.pdf(drawn.PdfPage(drawn.shown("x"), size=(612, 2_147_483_648)))


def huge_image() -> bytes:
    """A page with an image of 35,000 by 35,000 pixels, of which a megabyte is there."""
    image = drawn.pdf_stream(f"{_GREY}/Width 35000/Height 35000/Filter/FlateDecode", zlib.compress(bytes(_MEGABYTE), 9))
    return _page(b"99 0 0 99 0 0 cm /I Do", "/XObject<</I 5 0 R>>", image)


def very_many_frames() -> bytes:
    """A GIF of twenty thousand pictures of a pixel."""
    head = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\0"
    return head + frame * 20_000 + b";"


def looping_tiff() -> bytes:
    """A directory that is followed by itself."""
    entries = [(256, 1), (257, 1), (258, 8), (259, 1), (262, 1), (273, 8), (277, 1), (278, 1), (279, 1)]
    packed = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in entries)
    return b"II*\0" + struct.pack("<IH", 8, len(entries)) + packed + struct.pack("<I", 8)


def packed_profile() -> bytes:
    """A PNG whose colour profile unpacks to two hundred megabytes."""
    profile = b"name\0\0" + zlib.compress(bytes(200 * _MEGABYTE), 9)
    return _png((b"IHDR", _png_header(9, 9)), (b"iCCP", profile), (b"IDAT", zlib.compress(bytes(90))), (b"IEND", b""))


def packed_pixels() -> bytes:
    """A PNG of nine by nine pixels, and two hundred megabytes of them."""
    pixels = zlib.compress(bytes(200 * _MEGABYTE), 9)
    return _png((b"IHDR", _png_header(9, 9)), (b"IDAT", pixels), (b"IEND", b""))


def promised_pixels() -> bytes:
    """A PNG of the most pixels that are decoded, of which none is there."""
    return _png((b"IHDR", _png_header(32_767, 3_600)), (b"IDAT", zlib.compress(b"")), (b"IEND", b""))


BOMBS: tuple[Callable[[], bytes], ...] = (
    form_within_itself,
    forms_within_forms,
    endless_pattern,
    packed_blanks,
    circular_page_tree,
    deep_page_tree,
    promised_pages,
    huge_sheet,
    huge_image,
    very_many_frames,
    looping_tiff,
    packed_profile,
    packed_pixels,
    promised_pixels,
)


def _page(content: bytes, resources: str, *objects: bytes, filters: str = "") -> bytes:
    """A PDF of one page with this content; ``objects`` have the numbers from 5 on."""
    page = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<<{resources}>>>>".encode()
    pages = b"<</Type/Pages/Count 1/Kids[3 0 R]>>"
    return drawn.pdf_file([_CATALOG, pages, page, drawn.pdf_stream(filters, content), *objects])


def _png_header(width: int, height: int) -> bytes:
    return struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)


def _png(*chunks: tuple[bytes, bytes]) -> bytes:
    packed = (
        struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        for kind, content in chunks
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)
