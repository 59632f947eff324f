"""Documents that the tests draw themselves."""

from __future__ import annotations

import io
import zlib
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any

import pypdfium2 as pdfium  # type: ignore[import-untyped]  # it ships no types
from PIL import Image

ENGLISH = ("The quick brown fox jumps", "over the lazy dog while", "seven judges are watching")
GERMAN = ("Die Bäume müssen über Nacht", "größer geworden sein, sagte", "der Förster auf der Straße")


def page(lines: Sequence[str] = ENGLISH, *, size: tuple[int, int] = (900, 400), height: int = 44) -> Image.Image:
    """Black lines on white, as at 300 dpi. By pdfium: Pillow's own font has no umlauts."""
    scale = 72 / 300
    content = "".join(
        shown(line, x=60 * scale, y=(size[1] - 100 - number * height * 1.7) * scale, points=height * scale)
        for number, line in enumerate(lines)
    )
    with closing(pdfium.PdfDocument(pdf(PdfPage(content, size=(size[0] * scale, size[1] * scale))))) as document:
        drawn: Image.Image = document[0].render(scale=1 / scale - 1e-6, grayscale=True).to_pil().copy()
    return drawn


def saved(image: Image.Image, kind: str, **options: Any) -> bytes:
    """The image as a file of this Pillow format."""
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


@dataclass
class PdfPage:
    """A page for `pdf`: operators, with font F1 (Helvetica), image Im1 and form Fm1 (that may place Im1) if given."""

    content: str = ""
    size: tuple[float, float] = (612, 792)
    image: Image.Image | None = None
    form: str = ""
    extra: str = ""
    image_dictionary: str = ""
    more_images: Sequence[Image.Image] = ()  # Im2 and so on


def shown(text: str, *, x: float = 72, y: float = 700, points: float = 12, hidden: bool = False) -> str:
    """Operators that show one line of text."""
    return f"BT /F1 {points} Tf {3 if hidden else 0} Tr {x} {y} Td ({text}) Tj ET\n"


def placed(x: float, y: float, width: float, height: float, *, name: str = "Im1") -> str:
    """Operators that place an image."""
    return f"q {width} 0 0 {height} {x} {y} cm /{name} Do Q\n"


def pdf(*pages: PdfPage, title: str | None = None) -> bytes:
    """A PDF 1.4 of these pages."""
    objects: list[bytes] = [b"", b"", b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"]
    kids = [_add_page(objects, drawn) for drawn in pages]
    objects[0] = b"<</Type/Catalog/Pages 2 0 R>>"
    objects[1] = f"<</Type/Pages/Count {len(kids)}/Kids[{' '.join(f'{kid} 0 R' for kid in kids)}]>>".encode()
    trailer = "/Root 1 0 R"
    if title is not None:
        objects.append(f"<</Title({title})>>".encode())
        trailer += f"/Info {len(objects)} 0 R"
    return pdf_file(objects, trailer)


def _add_page(objects: list[bytes], drawn: PdfPage) -> int:
    named = ""
    if drawn.image is not None:
        width, height = drawn.image.size
        fields = drawn.image_dictionary or f"/Width {width}/Height {height}/ColorSpace/DeviceGray/BitsPerComponent 8"
        pixels = zlib.compress(drawn.image.tobytes())
        objects.append(pdf_stream(f"/Type/XObject/Subtype/Image{fields}/Filter/FlateDecode", pixels))
        named += f"/Im1 {len(objects)} 0 R"
    for number, image in enumerate(drawn.more_images, start=2):
        fields = f"/Width {image.width}/Height {image.height}/ColorSpace/DeviceGray/BitsPerComponent 8"
        pixels = zlib.compress(image.tobytes())
        objects.append(pdf_stream(f"/Type/XObject/Subtype/Image{fields}/Filter/FlateDecode", pixels))
        named += f"/Im{number} {len(objects)} 0 R"
    if drawn.form:
        fields = f"/Type/XObject/Subtype/Form/BBox[0 0 2000 2000]/Resources<</XObject<<{named}>>>>"
        objects.append(pdf_stream(fields, drawn.form.encode()))
        named += f"/Fm1 {len(objects)} 0 R"
    objects.append(pdf_stream("", drawn.content.encode("cp1252")))
    resources = f"/Resources<</Font<</F1 3 0 R>>/XObject<<{named}>>>>/Contents {len(objects)} 0 R"
    box = f"/MediaBox[0 0 {drawn.size[0]} {drawn.size[1]}]"
    objects.append(f"<</Type/Page/Parent 2 0 R{box}{drawn.extra}{resources}>>".encode())
    return len(objects)


def pdf_stream(fields: str, data: bytes) -> bytes:
    """A stream object, its dictionary with these fields."""
    return f"<<{fields}/Length {len(data)}>>stream\n".encode() + data + b"\nendstream"


def pdf_file(objects: Sequence[bytes], trailer: str = "/Root 1 0 R") -> bytes:
    """A PDF of these objects, numbered from 1, with a sound cross-reference table."""
    out = bytearray(b"%PDF-1.4\n")
    offsets = []
    for number, body in enumerate(objects, start=1):
        offsets.append(len(out))
        out += b"%d 0 obj\n" % number + body + b"\nendobj\n"
    start = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % offset for offset in offsets)
    out += f"trailer\n<</Size {len(objects) + 1}{trailer}>>\nstartxref\n{start}\n%%EOF\n".encode()
    return bytes(out)
