"""What kind of file it is, told by its first bytes. Names and extensions say nothing."""

from __future__ import annotations

from typing import Final

HEAD_BYTES: Final = 1024
"""How much of a file's beginning `media_type` wants to see."""

READ: Final = "PDF, TIFF, PNG, JPEG, JPEG 2000, WebP, GIF or BMP"
"""What is read, in words for a person; HEIC besides, with its extra."""

PILLOW_FORMATS: Final = {
    "image/tiff": "TIFF",
    "image/png": "PNG",
    "image/jpeg": "JPEG",
    "image/jp2": "JPEG2000",
    "image/j2c": "JPEG2000",
    "image/webp": "WEBP",
    "image/gif": "GIF",
    "image/bmp": "BMP",
    "image/heic": "HEIF",
    "image/heif": "HEIF",
}
"""What Pillow calls them."""

_SIGNATURES: Final = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
    (b"II+\x00", "image/tiff"),  # BigTIFF
    (b"MM\x00+", "image/tiff"),
    (b"\x00\x00\x00\x0cjP  \r\n\x87\n", "image/jp2"),  # ISO 15444-1, I.5.1
    (b"\xff\x4f\xff\x51", "image/j2c"),  # the codestream of a JPEG 2000 alone: SOC, SIZ
)

_HEIC_BRANDS: Final = frozenset({b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"hevm", b"hevs"})
_HEIF_BRANDS: Final = frozenset({b"mif1", b"mif2", b"msf1"})
_BMP_HEADERS: Final = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
_BOX_HEAD: Final = 16


def media_type(head: bytes) -> str | None:
    """The media type of a file that begins with `head` (its first `HEAD_BYTES`), or None when it is none that is read.

    A PDF may have other bytes before its header, which readers look for in the first 1,024 (PDF 1.7 reference,
    appendix H, note 13).
    """
    for signature, name in _SIGNATURES:
        if head.startswith(signature):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if _is_bmp(head):
        return "image/bmp"
    return _heif_type(head) or ("application/pdf" if b"%PDF-" in head[:HEAD_BYTES] else None)


def _is_bmp(head: bytes) -> bool:
    """Two letters are too little to tell it from a text: the size of the second header must be one that there is."""
    return head[:2] == b"BM" and len(head) >= 18 and int.from_bytes(head[14:18], "little") in _BMP_HEADERS


def _heif_type(head: bytes) -> str | None:
    """ISO 23008-12, 10.2: the major brand, or for the general ones whether HEVC is among the compatible."""
    if head[4:8] != b"ftyp" or len(head) < _BOX_HEAD:
        return None
    length = int.from_bytes(head[:4], "big")
    major, compatible = head[8:12], {head[at : at + 4] for at in range(_BOX_HEAD, min(length, len(head)), 4)}
    if major in _HEIC_BRANDS:
        return "image/heic"
    return "image/heif" if major in _HEIF_BRANDS and compatible & _HEIC_BRANDS else None
