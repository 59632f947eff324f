"""TIFF, PNG, JPEG, JPEG 2000, WebP, GIF, BMP and HEIC through Pillow. Pages are frames, also those of animations."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from PIL import ExifTags, Image, ImageChops, ImageOps

from batchproc.ocr import image_headers, memory, tiff
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.embedded_images import END, END_WITHIN, PADDING
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.formats import PILLOW_FORMATS
from batchproc.ocr.pages import PageImage
from batchproc.ocr.pixels import any_size, to_grey
from batchproc.ocr.resolution import credible, squared, useful
from batchproc.ocr.stated_resolution import Stated, stated_by
from batchproc.ocr.stream import SourceReader, SourceStream

_SIDEWAYS: Final = (5, 6, 7, 8)  # EXIF orientations that swap width and height


class ImageSource:
    """An open image file. See `batchproc.ocr.pages.Source`.

    Attributes:
        is_read_wrong: a TIFF with a page that Pillow would read wrong, or not at all: for `batchproc.ocr.odd_tiffs`.
    """

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
        self.is_read_wrong = False
        tiff.prepare()
        with decoding(stream):
            self._check_header()
            if media_type == "image/jpeg" and not _has_end(stream):
                stream = self._stream = SourceReader(stream.raw.extended(PADDING))
            stream.seek(0)
            self._image = Image.open(stream, formats=[PILLOW_FORMATS[media_type]])
        try:
            frames = self._frames()
            bounds.check_document(frames)
        except BaseException:
            self.close()
            raise
        self.page_count = len(frames)
        self._failures = {index: frame for index, frame in enumerate(frames) if isinstance(frame, OcrFailure)}

    def page(self, index: int) -> ImagePage:
        if not 0 <= index < self.page_count:
            raise IndexError(index)
        if index in self._failures:  # Pillow would show another frame: it seeks a second time to none that it is at
            raise self._failures[index]
        return ImagePage(self._image, index, self._stream, self._bounds)

    def close(self) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._image.close()

    def _check_header(self) -> None:
        """What has to be known before Pillow opens the file."""
        self._stream.seek(0)
        head = self._stream.read(image_headers.WEBP_HEAD)
        tiff.require_little_endian(head)
        canvas = image_headers.webp_canvas(head) if self.media_type == "image/webp" else None
        if canvas is not None:
            self._bounds.check_pixels(*canvas)

    def _frames(self) -> list[tuple[int, int] | OcrFailure]:
        if self.media_type in ("image/tiff", "image/heic", "image/heif"):
            return list(self._sized_frames())
        size = self._judge(*self._image.size)
        if isinstance(size, OcrFailure):
            return [size]
        if self.media_type == "image/gif":  # Pillow follows all frames, be they millions, to count them
            count = image_headers.gif_frames(self._stream, self._bounds.max_pages)
        else:
            count = getattr(self._image, "n_frames", 1)
        self._bounds.check_pages(count)
        return [size] * max(1, count)

    def _sized_frames(self) -> Iterator[tuple[int, int] | OcrFailure]:
        """Follows a TIFF's chain of directories, of which Pillow ends a loop at the first that it has seen before.

        After a directory that cannot be read the next is unknown: it counts as a page, that fails, and is the last.
        """
        chain = tiff.Chain(self._stream) if self.media_type == "image/tiff" else None
        for index in range(self._bounds.max_pages + 1):
            try:
                with decoding(self._stream):
                    try:
                        has_frame = self._has_frame(index)
                    except SyntaxError:  # a kind of directory that Pillow does not know
                        self.is_read_wrong = chain is not None
                        raise
                    if chain is not None:
                        chain.follow(has_frame)
                        self.is_read_wrong = self.is_read_wrong or tiff.is_read_wrong(self._image)
                    if not has_frame:
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
        with decoding(self._stream):
            self._image.seek(self._index)
            width, height = self._image.size
            self._bounds.check_pixels(width, height)
            self._bounds.check_pixels(*tiff.block(self._image))
        with memory.room(memory.PER_PIXEL * width * height), decoding(self._stream):
            resolution = credible(self._image.size, self._stated())
            inverted = tiff.counts_from_white(self._image)
            if self._image.mode == "RGB":
                self._image.draft("L", None)  # a JPEG decodes to grey at a third of the memory; others ignore it
            self._image.load()
            grey = to_grey(tiff.without_sign(_upright(_as_printed(self._image))), inverted=inverted)
        return useful(squared(grey, resolution), wanted=dpi, max_pixels=self._bounds.max_pixels)

    def _stated(self) -> Stated:
        stated = stated_by(self._image)
        return stated.turned() if _orientation(self._image) in _SIDEWAYS else stated


def _has_end(stream: io.BufferedReader[SourceStream]) -> bool:
    """Whether the end of a JPEG is marked; without the mark, all of its pixels may still be there."""
    stream.seek(max(0, stream.raw.size - END_WITHIN))
    return END in stream.read(END_WITHIN)


@contextmanager
def decoding(stream: io.BufferedReader[SourceStream]) -> Iterator[None]:
    """Turns whatever Pillow throws at a damaged file into `unreadable_file`, and silences what it would print."""
    try:
        with warnings.catch_warnings(), any_size():
            warnings.simplefilter("ignore")
            yield
    except (OcrFailure, MemoryError):
        raise
    except Exception as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        stream.raw.raise_storage_error()
        raise OcrFailure("unreadable_file", f"Pillow cannot decode the image ({type(error).__name__})") from error


def _upright(image: Image.Image) -> Image.Image:
    """The image as its EXIF orientation wants to be seen; the same object, not a copy, when that is as it is."""
    return image if _orientation(image) == 1 else ImageOps.exif_transpose(image)


def _orientation(image: Image.Image) -> int:
    """1 to 8 (EXIF 2.3, tag 274). Pillow turns TIFFs itself while it loads them, and drops the tag."""
    found = image.getexif().get(ExifTags.Base.Orientation, 1)
    return found if isinstance(found, int) else 1


def _as_printed(image: Image.Image) -> Image.Image:
    """A CMYK JPEG as amounts of ink. Pillow takes each for one of Adobe's, which hold amounts of paper left white."""
    if image.format == "JPEG" and image.mode == "CMYK" and "adobe" not in image.info:
        return ImageChops.invert(image)
    return image
