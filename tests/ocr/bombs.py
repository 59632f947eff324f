"""Files whose headers promise, or whose data hide, far more than there is; made by code, byte for byte.

Those that only a worker's limits of time and memory can stop are in `tests.faults.bombs`.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from functools import cache

from PIL import Image

from tests.ocr import drawn, odd_images

MEBI = 1 << 20
_CATALOG = b"<</Type/Catalog/Pages 2 0 R>>"
_PAGES = b"<</Type/Pages/Count 1/Kids[3 0 R]>>"
_IMAGE = "/Type/XObject/Subtype/Image/Width 64/Height 64/BitsPerComponent 8"
SMALL = Image.new("L", (64, 64), 200)


@cache
def zeros(count: int, times: int = 1) -> bytes:
    """So many NUL bytes packed by Flate, `times` times; in pieces, so that they are never there."""
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(bytes(MEBI)) for _ in range(count // MEBI)) + packer.flush()
    for _ in range(times - 1):
        packed = zlib.compress(packed, 9)
    return packed


def page(content: bytes, resources: str, *objects: bytes, filters: str = "") -> bytes:
    """A PDF of one page with this content; `objects` have the numbers from 5 on."""
    body = f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Contents 4 0 R/Resources<<{resources}>>>>".encode()
    return drawn.pdf_file([_CATALOG, _PAGES, body, drawn.pdf_stream(filters, content), *objects])


def image_page(fields: str, data: bytes) -> bytes:
    """A page that shows an image of 64 by 64 pixels, by its dictionary."""
    return page(b"612 0 0 792 0 0 cm /I Do", "/XObject<</I 5 0 R>>", drawn.pdf_stream(_IMAGE + fields, data))


def jpeg2000(side: int) -> bytes:
    """A picture of 64 by 64 pixels whose codestream says that it has another size."""
    data = bytearray(drawn.saved(SMALL, "JPEG2000"))
    struct.pack_into(">IIIIII", data, data.index(b"\xff\x4f\xff\x51") + 8, side, side, 0, 0, side, side)
    return bytes(data)


def long_box() -> bytes:
    """A JPEG 2000 whose box of headers says that it has four gigabytes."""
    data = bytearray(drawn.saved(SMALL, "JPEG2000"))
    struct.pack_into(">I", data, data.index(b"jp2h") - 4, 2**32 - 1)
    return bytes(data)


def many_components() -> bytes:
    """A codestream of 10,000 by 10,000 pixels in sixteen thousand components."""
    data = bytearray(jpeg2000(10_000))
    struct.pack_into(">H", data, data.index(b"\xff\x4f\xff\x51") + 40, 16_384)
    return bytes(data)


def jpeg(side: int, *, progressive: bool) -> bytes:
    """The same as a JPEG; of a progressive one the decoder holds all coefficients."""
    data = bytearray(drawn.saved(SMALL.convert("RGB"), "JPEG", progressive=progressive))
    struct.pack_into(">HH", data, data.index(b"\xff\xc2" if progressive else b"\xff\xc0") + 5, side, side)
    return bytes(data)


def jbig2(side: int) -> bytes:
    """The segments of a page of 64 by 64 pixels with a generic region of another size."""
    region = struct.pack(">IIIIBB8b", side, side, 0, 0, 0, 0, 3, -1, -3, -1, 2, -2, -2, -2) + b"\xff\xac" * 10
    segments = [(48, struct.pack(">IIIIBH", 64, 64, 0, 0, 0, 0)), (38, region)]
    return b"".join(
        struct.pack(">IBBBI", number, kind, 0, 1, len(data)) + data for number, (kind, data) in enumerate(segments)
    )


def claimed_pages(count: int) -> bytes:
    """A page tree that claims so many pages, and has one."""
    kids = f"<</Type/Pages/Count {count}/Kids[3 0 R]>>".encode()
    return drawn.pdf_file([_CATALOG, kids, b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>"])


def packed_objects() -> bytes:
    """An object stream of two hundred megabytes, that pdfium unpacks as it opens the file."""
    stream = drawn.pdf_stream("/Type/ObjStm/N 1/First 4/Filter/FlateDecode", zeros(200 * MEBI))
    return drawn.pdf_file([_CATALOG, _PAGES, b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]>>", stream])


def gif(frames: int) -> bytes:
    """An animation of so many pictures of a pixel."""
    head = b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return head + (b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x44\x01\0") * frames + b";"


def webp(frames: int, side: int = 8) -> bytes:
    """An animation of so many equal pictures on a canvas of this size; the pictures have 8 by 8 pixels."""
    still = drawn.saved(Image.new("RGBA", (8, 8), (9, 9, 9, 9)), "WEBP", lossless=True)
    picture = still[still.index(b"VP8L") :]
    frame = bytes(6) + (7).to_bytes(3, "little") * 2 + bytes(3) + b"\0" + picture
    canvas = b"\x12\0\0\0" + (side - 1).to_bytes(3, "little") * 2
    chunks = _riff(b"VP8X", canvas) + _riff(b"ANIM", bytes(6)) + _riff(b"ANMF", frame) * frames
    return b"RIFF" + struct.pack("<I", len(chunks) + 4) + b"WEBP" + chunks


def _riff(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + bytes(len(data) % 2)


def png(*chunks: bytes) -> bytes:
    """A small picture with these chunks before its pixels."""
    rows = b"".join(b"\0" + bytes(64) for _ in range(64))
    return odd_images.png((64, 64), 8, 0, rows, *chunks)


def tiff(*blocks: bytes, size: tuple[int, int] = (64, 64), **fields: int) -> bytes:
    """A picture whose tags say what they like."""
    return odd_images.tiff(odd_images.tags(size, 8, **fields), blocks)


def long_tiff(**fields: list[int]) -> bytes:
    """The same with LONGs."""
    longs = {int(name[1:]): (odd_images.LONG, value) for name, value in fields.items()}
    tags = dict(odd_images.tags((64, 64), 8, t259=8)) | longs
    return odd_images.tiff(tags, [zlib.compress(bytes(64 * 64))])


def tiffs_in_a_row(count: int) -> bytes:
    """So many directories of the same strip, each followed by the next."""
    first = bytearray(odd_images.tiff(odd_images.tags((64, 64), 8), [bytes(64 * 64)]))
    at = struct.unpack_from("<I", first, 4)[0]
    directory = bytes(first[at:-4])
    for _ in range(count - 1):
        first[-4:] = struct.pack("<I", len(first))
        first += directory + bytes(4)
    return bytes(first)


def bmp() -> bytes:
    """A picture of 64 by 64 pixels that says that it has 60,000 by 60,000."""
    data = bytearray(drawn.saved(SMALL, "BMP"))
    struct.pack_into("<ii", data, 18, 60_000, 60_000)
    return bytes(data)


Outcome = str
READ, TOO_LARGE, UNREADABLE = "read", "too_large", "unreadable_file"

BOMBS: dict[str, tuple[Outcome, Callable[[], bytes]]] = {
    "jpx": (TOO_LARGE, lambda: image_page("/ColorSpace/DeviceGray/Filter/JPXDecode", jpeg2000(60_000))),
    "jpx-components": (TOO_LARGE, lambda: image_page("/ColorSpace/DeviceGray/Filter/JPXDecode", many_components())),
    "jbig2": (TOO_LARGE, lambda: image_page("/ColorSpace/DeviceGray/Filter/JBIG2Decode", jbig2(60_000))),
    "dct": (TOO_LARGE, lambda: image_page("/ColorSpace/DeviceRGB/Filter/DCTDecode", jpeg(60_000, progressive=False))),
    "dct-progressive": (
        TOO_LARGE,
        lambda: image_page("/ColorSpace/DeviceRGB/Filter/DCTDecode", jpeg(60_000, progressive=True)),
    ),
    "dct-packed": (
        TOO_LARGE,
        lambda: image_page(
            "/ColorSpace/DeviceRGB/Filter[/FlateDecode/DCTDecode]", zlib.compress(jpeg(60_000, progressive=True))
        ),
    ),
    "content": (TOO_LARGE, lambda: page(zeros(200 * MEBI), "", filters="/Filter/FlateDecode")),
    "content-short-name": (TOO_LARGE, lambda: page(zeros(200 * MEBI), "", filters="/Filter[/Fl]")),
    "content-twice": (
        TOO_LARGE,
        lambda: page(zeros(200 * MEBI, times=2), "", filters="/Filter[/FlateDecode/FlateDecode]"),
    ),
    "content-five-times": (
        TOO_LARGE,
        lambda: page(zeros(200 * MEBI, times=5), "", filters=f"/Filter[{'/FlateDecode' * 5}]"),
    ),
    "objects": (TOO_LARGE, packed_objects),
    "million-pages": (TOO_LARGE, lambda: claimed_pages(1_000_000)),
    "negative-pages": (READ, lambda: claimed_pages(-5)),
    "huge-sheet": (TOO_LARGE, lambda: drawn.pdf(drawn.PdfPage(drawn.shown("x"), size=(612, 2_147_483_648)))),
    "image-in-jp2": (UNREADABLE, lambda: jpeg2000(60_000)),
    "jp2-box": (UNREADABLE, long_box),
    "codestream": (TOO_LARGE, lambda: jpeg2000(60_000)[jpeg2000(60_000).index(b"\xff\x4f\xff\x51") :]),
    "jpeg": (TOO_LARGE, lambda: jpeg(60_000, progressive=True)),
    "gif-frames": (TOO_LARGE, lambda: gif(100_000)),
    "webp-frames": (TOO_LARGE, lambda: webp(100_000)),
    "webp-canvas": (TOO_LARGE, lambda: webp(2, side=1 << 24)),
    "apng-frames": (TOO_LARGE, lambda: png(odd_images.chunk(b"acTL", struct.pack(">II", 100_000, 0)))),
    "apng-most-frames": (TOO_LARGE, lambda: png(odd_images.chunk(b"acTL", struct.pack(">II", 1 << 31, 0)))),
    "tiff-frames": (TOO_LARGE, lambda: tiffs_in_a_row(100_000)),
    "png-profile": (UNREADABLE, lambda: png(odd_images.chunk(b"iCCP", b"name\0\0" + zeros(200 * MEBI)))),
    "png-text": (UNREADABLE, lambda: png(odd_images.chunk(b"zTXt", b"name\0\0" + zeros(200 * MEBI)))),
    "png-international-text": (
        UNREADABLE,
        lambda: png(odd_images.chunk(b"iTXt", b"name\0\1\0\0\0" + zeros(200 * MEBI))),
    ),
    "png-many-texts": (UNREADABLE, lambda: png(*[odd_images.chunk(b"zTXt", b"name\0\0" + zeros(MEBI))] * 1000)),
    "png-exif": (READ, lambda: png(odd_images.chunk(b"eXIf", b"II*\0\x08\0\0\0" + b"\xff" * (30 * MEBI)))),
    "png-pixels": (READ, lambda: png(odd_images.chunk(b"IDAT", zeros(200 * MEBI)))),
    "tiff-strip-elsewhere": (UNREADABLE, lambda: long_tiff(t273=[10**9])),
    "tiff-strip-short": (UNREADABLE, lambda: tiff(b"x")),
    "tiff-strip-empty": (UNREADABLE, lambda: tiff(zlib.compress(b""), t259=8)),
    "tiff-strip-long": (READ, lambda: tiff(zeros(200 * MEBI), t259=8)),
    "tiff-strip-of-all-rows": (READ, lambda: long_tiff(t278=[2**32 - 1])),
    "tiff-tile": (TOO_LARGE, lambda: tiff(zeros(MEBI), t259=8, t322=65_520, t323=32_752)),
    "tiff-samples": (UNREADABLE, lambda: tiff(bytes(64 * 64), t277=60_000)),
    "tiff-tags": (UNREADABLE, lambda: long_tiff(t700=[0] * 100_000)[:100_000]),
    "bmp": (TOO_LARGE, bmp),
}
"""By name: what becomes of the document, or of its first page, and the file."""
