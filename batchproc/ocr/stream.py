"""A reader of its own over a file that the caller opened, and keeps."""

from __future__ import annotations

import io
import os
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK = 1 << 20


class SourceStream(io.RawIOBase):
    """Reads `data` at a position of its own, neither moving nor closing what the caller holds.

    A descriptor is read with pread, so a library that seeks it or a caller that hashes it meanwhile does no harm.
    Nothing is ever opened by name.

    Args:
        data: a descriptor, or a binary stream, of a regular file, open for reading. It stays open until this is closed.
    """

    def __init__(self, data: BinaryIO | int) -> None:
        super().__init__()
        self._stream = None if isinstance(data, int) else data
        self._fd = data if isinstance(data, int) else _descriptor(data)
        self._position = 0
        self._error: OSError | None = None
        self.size = self._measure()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def fileno(self) -> int:
        if self._fd is None:
            raise io.UnsupportedOperation("this stream has no descriptor")
        return self._fd

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self.size}[whence]
        if base + offset < 0:
            raise ValueError("a position before the start of the stream")
        self._position = base + offset
        return self._position

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        view = memoryview(buffer).cast("B")
        try:
            data = self._read_at(self._position, len(view))
        except OSError as error:
            self._error = error
            raise
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def extended(self, more: bytes) -> SourceStream:
        """The same file as if it went on with `more`."""
        return _Extended(self._stream if self._fd is None else self._fd, more)  # type: ignore[arg-type]  # one is there

    def raise_storage_error(self) -> None:
        """Tells a damaged file from damaged storage, after a library could not read it.

        Raises:
            OSError: the operating system's own, if a read failed, or fails now as the file is read through.
        """
        if self._error is not None:
            raise self._error
        position = 0
        while data := self._read_at(position, _CHUNK):
            position += len(data)

    def _read_at(self, position: int, count: int) -> bytes:
        if self._fd is not None:
            return os.pread(self._fd, count, position)
        assert self._stream is not None
        self._stream.seek(position)
        return self._stream.read(count)

    def _measure(self) -> int:
        if self._fd is not None:
            return os.fstat(self._fd).st_size
        assert self._stream is not None
        return self._stream.seek(0, os.SEEK_END)


class _Extended(SourceStream):
    """A file that goes on with other bytes; no descriptor has them."""

    def __init__(self, data: BinaryIO | int, more: bytes) -> None:
        super().__init__(data)
        self._end = self.size
        self._more = more
        self.size += len(more)

    def fileno(self) -> int:
        raise io.UnsupportedOperation("a file with more bytes than its descriptor has")

    def _read_at(self, position: int, count: int) -> bytes:
        data = super()._read_at(position, count)
        if len(data) < count and position + len(data) >= self._end:
            at = position + len(data) - self._end
            data += self._more[at : at + count - len(data)]
        return data


if TYPE_CHECKING:
    _Buffered = io.BufferedReader[SourceStream]
else:
    _Buffered = io.BufferedReader


class SourceReader(_Buffered):
    """Buffered, and it allocates no more for a read than there is left: a header may ask for gigabytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self.raw.size - self.tell())
        return super().read(left if size is None or size < 0 else min(size, left))


def _descriptor(stream: BinaryIO) -> int | None:
    try:
        return stream.fileno()
    except OSError:  # io.UnsupportedOperation, of a stream in memory
        return None
