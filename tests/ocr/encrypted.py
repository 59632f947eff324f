"""Encrypted PDFs, made by the rules of the PDF 1.7 reference, 3.5.2 (revision 3: RC4 with 128 bits)."""

from __future__ import annotations

import hashlib
import struct

from tests.ocr import drawn

_PADDING = bytes.fromhex("28bf4e5e4e758a4164004e56fffa01082e2e00b6d0683e802f0ca9fe6453697a")
_PERMISSIONS = -44
_ID = bytes(range(16))
_CONTENTS = 5


def encrypted_pdf(text: str, *, user: bytes = b"", owner: bytes = b"owner") -> bytes:
    """A page that shows `text`. Without a `user` password everybody may read it, and only its owner change it."""
    owner_entry = _twenty_times(_padded(user), _digest(_padded(owner)))
    key = _digest(_padded(user) + owner_entry + struct.pack("<i", _PERMISSIONS) + _ID)
    user_entry = _twenty_times(hashlib.md5(_PADDING + _ID).digest(), key) + bytes(16)
    encryption = (
        f"<</Filter/Standard/V 2/R 3/Length 128/P {_PERMISSIONS}"
        f"/O<{owner_entry.hex()}>/U<{user_entry.hex()}>>>".encode()
    )
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Count 1/Kids[4 0 R]>>",
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 612 792]/Resources<</Font<</F1 3 0 R>>>>/Contents 5 0 R>>",
        drawn.pdf_stream("", _rc4(_object_key(key, _CONTENTS), drawn.shown(text).encode("cp1252"))),
        encryption,
    ]
    return drawn.pdf_file(objects, f"/Root 1 0 R/Encrypt 6 0 R/ID[<{_ID.hex()}><{_ID.hex()}>]")


def _padded(password: bytes) -> bytes:
    return (password + _PADDING)[:32]


def _digest(data: bytes) -> bytes:
    for _ in range(51):
        data = hashlib.md5(data).digest()
    return data


def _twenty_times(data: bytes, key: bytes) -> bytes:
    for number in range(20):
        data = _rc4(bytes(byte ^ number for byte in key), data)
    return data


def _object_key(key: bytes, number: int) -> bytes:
    return hashlib.md5(key + number.to_bytes(3, "little") + bytes(2)).digest()


def _rc4(key: bytes, data: bytes) -> bytes:
    state = list(range(256))
    j = 0
    for i in range(256):
        j = (j + state[i] + key[i % len(key)]) % 256
        state[i], state[j] = state[j], state[i]
    i = j = 0
    out = bytearray()
    for byte in data:
        i = (i + 1) % 256
        j = (j + state[i]) % 256
        state[i], state[j] = state[j], state[i]
        out.append(byte ^ state[(state[i] + state[j]) % 256])
    return bytes(out)
