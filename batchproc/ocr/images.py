"""TIFF, PNG, JPEG and GIF through Pillow. Pages are frames."""

from __future__ import annotations

import ctypes
import importlib.util
import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from PIL import ExifTags, Image, ImageOps

from batchproc.ocr import memory
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.pages import PageImage
from batchproc.ocr.pixels import to_grey
from batchproc.ocr.resolution import credible, squared, useful
from batchproc.ocr.stream import SourceStream

_FORMATS: Final = {"image/tiff": "TIFF", "image/png": "PNG", "image/jpeg": "JPEG", "image/gif": "GIF"}
_SIDEWAYS: Final = (5, 6, 7, 8)  # EXIF orientations that swap width and height
_PHOTOMETRIC: Final = 262
_WHITE_IS_ZERO: Final = 0


def _silence_libtiff() -> None:
    """Keeps libtiff from writing its errors to the process's standard error: Pillow raises what matters of them.

    Pillow has no switch for this, but its extension module leads to the libtiff that it is linked with.
    """
    extension = importlib.util.find_spec("PIL._imaging")
    library = ctypes.CDLL(extension.origin if extension is not None else None)
    for name in ("TIFFSetErrorHandler", "TIFFSetWarningHandler"):
        if hasattr(library, name):
            setter = getattr(library, name)
            setter.argtypes, setter.restype = [ctypes.c_void_p], ctypes.c_void_p
            setter(None)


class ImageSource:
    """An open image file. See `batchproc.ocr.pages.Source`."""

    title: Final = None
    flags: Final[tuple[str, ...]] = ()

    def __init__(self, stream: io.BufferedReader[SourceStream], media_type: str, *, bounds: Bounds) -> None:
        """
        Raises:
            OcrFailure: `unreadable_file` or `too_large`.
            OSError: the storage failed.
        """
        self.media_type = media_type
        self._bounds = bounds
        self._stream = stream
        _silence_libtiff()
        with _decoding(stream):
            self._image = Image.open(stream, formats=[_FORMATS[media_type]])
        try:
            frames = self._frames()
            bounds.check_document(frames)
        except BaseException:
            self.close()
            raise
        self.page_count = len(frames)

    def page(self, index: int) -> ImagePage:
        if not 0 <= index < self.page_count:
            raise IndexError(index)
        return ImagePage(self._image, index, self._stream, self._bounds)

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._image.close()

    def _frames(self) -> list[tuple[int, int] | OcrFailure]:
        if self.media_type == "image/tiff":
            return list(self._tiff_frames())
        size = self._judge(*self._image.size)
        if self.media_type != "image/gif" or isinstance(size, OcrFailure):
            return [size]
        with _decoding(self._stream):
            return [size] * getattr(self._image, "n_frames", 1)

    def _tiff_frames(self) -> Iterator[tuple[int, int] | OcrFailure]:
        """Follows the chain of directories, of which Pillow ends a loop at the first that it has seen before.

        After a directory that cannot be read the next is unknown: it counts as a page, that fails, and is the last.
        """
        for index in range(self._bounds.max_pages + 1):
            try:
                with _decoding(self._stream):
                    if not self._has_frame(index):
                        return
            except OcrFailure as failure:
                yield failure
                return
            yield self._judge(*self._image.size)

    def _has_frame(self, index: int) -> bool:
        try:
            self._image.seek(index)
        except EOFError:
            return False
        return True

    def _judge(self, width: int, height: int) -> tuple[int, int] | OcrFailure:
        try:
            self._bounds.check_pixels(width, height)
        except OcrFailure as failure:
            return failure
        return width, height


class ImagePage:
    """One frame. See `batchproc.ocr.pages.SourcePage`."""

    def __init__(self, image: Image.Image, index: int, stream: io.BufferedReader[SourceStream], bounds: Bounds) -> None:
        self._image = image
        self._index = index
        self._stream = stream
        self._bounds = bounds

    def text_layer(self) -> None:
        return None

    def image(self, dpi: int) -> PageImage:
        with _decoding(self._stream):
            self._image.seek(self._index)
            width, height = self._image.size
            self._bounds.check_pixels(width, height)
        with memory.room(memory.PER_PIXEL * width * height), _decoding(self._stream):
            resolution = credible(self._image.size, _stated_resolution(self._image))
            inverted = _is_inverted(self._image)
            if self._image.mode == "RGB":
                self._image.draft("L", None)  # a JPEG decodes to grey at a third of the memory; others ignore it
            self._image.load()
            grey = to_grey(_upright(self._image), inverted=inverted)
        return useful(*squared(grey, resolution), wanted=dpi, max_pixels=self._bounds.max_pixels)


@contextmanager
def _decoding(stream: io.BufferedReader[SourceStream]) -> Iterator[None]:
    """Turns whatever Pillow throws at a damaged file into `unreadable_file`, and silences what it would print.

    Its own limit of pixels is off meanwhile: `Bounds` decides, from the same header.
    """
    limit = Image.MAX_IMAGE_PIXELS
    Image.MAX_IMAGE_PIXELS = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except (OcrFailure, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        stream.raw.raise_storage_error()
        raise OcrFailure("unreadable_file", f"Pillow cannot decode the image ({type(error).__name__})") from error
    finally:
        Image.MAX_IMAGE_PIXELS = limit


def _stated_resolution(image: Image.Image) -> tuple[float, float] | None:
    """The resolution that the file names, horizontal and vertical as the page is seen, in dots per inch."""
    stated = image.info.get("dpi") or image.info.get("resolution")  # TIFFs without a unit mean inches, mostly
    try:
        horizontal, vertical = (float(value) for value in stated)  # type: ignore[union-attr]  # whatever a file holds
    except (TypeError, ValueError, ZeroDivisionError):
        return None
    sideways = _orientation(image) in _SIDEWAYS
    return (vertical, horizontal) if sideways else (horizontal, vertical)


def _upright(image: Image.Image) -> Image.Image:
    """The image as its EXIF orientation wants to be seen; the same object, not a copy, when that is as it is."""
    return image if _orientation(image) == 1 else ImageOps.exif_transpose(image)


def _orientation(image: Image.Image) -> int:
    """1 to 8 (EXIF 2.3, tag 274). Pillow turns TIFFs itself while it loads them, and drops the tag."""
    found = image.getexif().get(ExifTags.Base.Orientation, 1)
    return found if isinstance(found, int) else 1


def _is_inverted(image: Image.Image) -> bool:
    """Whether 16-bit grey counts from white: the one TIFF kind that Pillow does not turn itself."""
    tags = getattr(image, "tag_v2", {})
    return image.mode.startswith("I;16") and tags.get(_PHOTOMETRIC) == _WHITE_IS_ZERO
