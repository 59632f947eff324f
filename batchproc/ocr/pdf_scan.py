"""What has to be known of a PDF before pdfium opens it, from its bytes alone.

pdfium unpacks a stream as a whole, up to a gigabyte, and packs of a thousandth of that are easily made. And it does
not tell what a catalog says beyond pages and forms. So the file is gone through once: streams that unpack to much are
found by unpacking them piece by piece, without keeping anything, and so are the marks of odd documents, also within
object streams. What is encrypted cannot be unpacked here, nor what names its filters in an unusual way: for those
there is the memory limit of the worker.
"""

from __future__ import annotations

import io
import re
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.stream import SourceStream

_WINDOW: Final = 1 << 20
_DICTIONARY: Final = 4096
"""Bytes before the data of a stream in which its dictionary is looked for."""

_PIECE: Final = 1 << 16
_BEST_RATIO: Final = 1032
"""How many bytes one packed by Flate can become (zlib's technical details)."""

_MOST_WORK: Final = 2 << 30
"""Bytes unpacked in a document, then no more is looked at: about three seconds."""

_MOST_FILTERS: Final = 4

_FLATE: Final = re.compile(rb"/(?:FlateDecode|Fl)(?![A-Za-z])")
_LENGTH: Final = re.compile(rb"/Length\s+(\d{1,12})(?!\d|\s+\d+\s+R)")
_NOT_UNPACKED: Final = re.compile(rb"/Subtype\s*/Image(?![A-Za-z])|/Type\s*/EmbeddedFile(?![A-Za-z])")
"""An image is unpacked line by line, and bounded by its pixels; an attachment is not unpacked at all."""

_OBJECT_STREAM: Final = re.compile(rb"/Type\s*/ObjStm(?![A-Za-z])")
_MARKS: Final = {
    "xfa": (b"/NeedsRendering", re.compile(rb"/NeedsRendering\s+true(?![A-Za-z])")),
    "portfolio": (b"/Collection", re.compile(rb"/Collection\s*(?:<<|\d{1,10}\s+\d{1,5}\s+R)")),
}


@dataclass(frozen=True)
class _Packed:
    """A stream: where its data begins, and how."""

    at: int
    layers: int
    length: int | None
    holds_objects: bool


def marks(stream: io.BufferedReader[SourceStream], bounds: Bounds) -> frozenset[str]:
    """Which of the flags "xfa" (the dynamic form's page asks to wait) and "portfolio" (a folder of files) it earns.

    Raises:
        OcrFailure: `too_large`, a stream unpacks to more than `bounds.max_stream_bytes`.
    """
    found: set[str] = set()
    left = _MOST_WORK
    for start, window in windows(stream):
        found |= _marks_in(window)
        for packed in _streams_in(start, window):
            if left <= 0 or not _is_suspect(packed, bounds):
                continue
            for piece in _unpacked(stream, packed, bounds.max_stream_bytes):
                left -= len(piece)
                if packed.holds_objects:
                    found |= _marks_in(piece)
    return frozenset(found)


def windows(stream: io.BufferedReader[SourceStream]) -> Iterator[tuple[int, bytes]]:
    """Pieces of a file and their positions; each begins with the last `_DICTIONARY` bytes of the one before."""
    at, before = 0, b""
    while True:
        stream.seek(at)
        data = stream.read(_WINDOW)
        if not data:
            return
        yield at - len(before), before + data
        at += len(data)
        before = (before + data)[-_DICTIONARY:]


def _marks_in(data: bytes) -> set[str]:
    return {name for name, (word, pattern) in _MARKS.items() if word in data and pattern.search(data)}


def _streams_in(start: int, window: bytes) -> Iterator[_Packed]:
    """The packed streams whose keyword is in the new part of the window; one on the border can come twice."""
    at = window.find(b"stream", _DICTIONARY - len(b"stream\r\n") if start else 0)
    while at >= 0:
        data = at + len(b"stream")
        line_end = 2 if window[data : data + 2] == b"\r\n" else 1
        if window[data : data + 1] in (b"\r", b"\n") and window[at - 3 : at] != b"end":
            dictionary = window[max(0, at - _DICTIONARY) : at]
            dictionary = dictionary[dictionary.rfind(b" obj") + 1 :]
            layers = len(_FLATE.findall(dictionary))
            if layers and not _NOT_UNPACKED.search(dictionary):
                length = _LENGTH.search(dictionary)
                stated = int(length.group(1)) if length else None
                yield _Packed(start + data + line_end, layers, stated, bool(_OBJECT_STREAM.search(dictionary)))
        at = window.find(b"stream", data)


def _is_suspect(packed: _Packed, bounds: Bounds) -> bool:
    if packed.holds_objects or packed.layers > 1 or packed.length is None:
        return True
    return packed.length * _BEST_RATIO > bounds.max_stream_bytes


def _unpacked(stream: io.BufferedReader[SourceStream], packed: _Packed, most: int) -> Iterator[bytes]:
    """What a stream unpacks to, in pieces, until it ends or is damaged."""
    if packed.layers > _MOST_FILTERS:
        raise OcrFailure("too_large", f"a stream in the PDF that is packed {packed.layers} times")
    pieces = _read(stream, packed.at)
    for _ in range(packed.layers):
        pieces = _inflated(pieces, most)
    yield from pieces


def _read(stream: io.BufferedReader[SourceStream], at: int) -> Iterator[bytes]:
    while True:
        stream.seek(at)
        data = stream.read(_PIECE)
        if not data:
            return
        at += len(data)
        yield data


def _inflated(pieces: Iterator[bytes], most: int) -> Iterator[bytes]:
    unpacker = zlib.decompressobj()
    total = 0
    for piece in pieces:
        waiting = piece
        while waiting:
            try:
                data = unpacker.decompress(waiting, _PIECE)
            except zlib.error:
                return
            total += len(data)
            if total > most:
                raise OcrFailure("too_large", f"a stream in the PDF unpacks to more than {most} bytes")
            yield data
            if unpacker.eof:
                return
            waiting = unpacker.unconsumed_tail
