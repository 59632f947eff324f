"""Tesseract in this process, through tesserocr.

It gets decoded pixels, never a file: given a text file that lists paths it would read those files.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import tesserocr
from PIL import Image, ImageChops

from batchproc.ocr import memory
from batchproc.ocr.engine import Orientation, Recognised, named
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.latin import LATIN
from batchproc.ocr.layout import Box, Layout, Line, Word
from batchproc.ocr.letter_height import least_letters
from batchproc.ocr.tessdata import ORIENTATION, SUFFIX, Tessdata
from batchproc.ocr.text_layer import normalised_text

MAX_LOADED: Final = 3
"""Language sets kept loaded, the latest used ones; each takes some tens of megabytes."""

SIDEWAYS: Final = 270
"""The layout analysis reads lines that run downwards, as on a page turned clockwise by 90 degrees. The turn back."""

ENGLISH: Final = "eng"

LEGIBLE: Final = 15
"""Pixels of a letter without ascenders that are enough. On 120 drawn pages of five typefaces in 10 to 14 points,
387,000 characters, as many were wrong with it as without reducing where the page was clean (11 and 8), and 4,015 for
5,376 where it was noisy, since grain averages out; with 17 it was 4,238, with 13 3,948. Of six real scans none was read
worse, with 11 either."""

SMALLEST: Final = 0.6
WORTH_IT: Final = 0.9
"""The factors by which a page is reduced: at the most, and at the least. Reducing takes 2 % of a page's time."""

_ORIENTATION_DPI: Final = 150
_MARGIN: Final = 0.25  # inches of white that stay around the ink
_QUIET: Final = {"debug_file": "/dev/null"}


class TesseractEngine:
    """See `batchproc.ocr.engine.Engine`.

    Args:
        tessdata: folders of language files, merged; none means those that the language packages installed.
    """

    name: Final = "tesseract"

    def __init__(self, tessdata: Sequence[Path] = ()) -> None:
        tesserocr.set_leptonica_log_level(tesserocr.LeptLogLevel.NONE)
        self.version: Final = tesserocr.tesseract_version().split()[1]
        self._data = Tessdata(tessdata)
        self._loaded: OrderedDict[tuple[str, ...], Any] = OrderedDict()
        self._orientation: Any = None

    def languages(self) -> set[str]:
        return self._data.languages()

    def loading_order(self, languages: tuple[str, ...]) -> tuple[str, ...]:
        return loading_order(languages)

    def data_hash_of(self, languages: tuple[str, ...]) -> str:
        return self._data.hash_of(languages)

    def recognise(
        self, image: Image.Image, *, dpi: int, languages: tuple[str, ...], layout: bool = False
    ) -> Recognised:
        api = self._api(languages)
        with _room_for(image):
            inked = _inked(image, round(dpi * _MARGIN))
            shown, scale = _as_small_as_it_reads(image.crop(inked), dpi, languages)
            _show(api, shown, round(dpi * scale))
            try:
                if not api.Recognize():
                    raise OcrFailure("engine_failed", "Tesseract cannot read the page")
                text = normalised_text(api.GetUTF8Text())
                words = len(text.split())
                confidence = float(api.MeanTextConf()) if words else None  # without words it says 95
                rotation = SIDEWAYS if words and _runs_downwards(api) else 0
                lines = _lines_within(api, inked, scale) if words and layout else ()
                places = Layout(image.size, lines, rotation) if layout else None
                return Recognised(text, confidence, words, rotation, layout=places)
            finally:
                api.Clear()

    def orientation(self, image: Image.Image, dpi: int) -> Orientation | None:
        if not self._data.has_orientation():
            return None
        if self._orientation is None:
            self._orientation = self._load((ORIENTATION,), psm=tesserocr.PSM.OSD_ONLY)
        # Half of 300 dpi takes two thirds of the time, and is less sure where it is wrong: 2.0 at most, not 5.4.
        factor = max(1, dpi // _ORIENTATION_DPI)
        with _room_for(image):
            _show(self._orientation, image.reduce(factor), dpi // factor)
            try:
                found = self._orientation.DetectOrientationScript()
            finally:
                self._orientation.Clear()
        if not found:
            return None
        return Orientation(-int(found["orient_deg"]) % 360, float(found["orient_conf"]))

    def close(self) -> None:
        for api in [*self._loaded.values(), self._orientation]:
            if api is not None:
                api.End()
        self._loaded.clear()
        self._orientation = None

    def _api(self, languages: tuple[str, ...]) -> Any:
        if languages in self._loaded:
            self._loaded.move_to_end(languages)
            return self._loaded[languages]
        api = self._load(languages, psm=tesserocr.PSM.AUTO, oem=tesserocr.OEM.LSTM_ONLY)
        self._loaded[languages] = api
        if len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)[1].End()
        return api

    def _load(self, languages: tuple[str, ...], **options: Any) -> Any:
        """Raises OcrFailure `missing_language`, also where Tesseract would drop a language without a word."""
        with self._data.folder_with(languages) as folder, memory.room(_bytes_to_load(folder, languages)):
            try:
                # The path is never left out: tesserocr's own default is the current folder.
                api = tesserocr.PyTessBaseAPI(
                    path=f"{folder}/", lang="+".join(loading_order(languages)), variables=_QUIET, **options
                )
            except RuntimeError as error:
                raise OcrFailure("missing_language", f"damaged language data for {named(languages)}") from error
            dropped = set(languages) - set(api.GetLoadedLanguages())
            if dropped:
                api.End()
                raise OcrFailure("missing_language", f"damaged language data for {named(sorted(dropped))}")
            return api


def loading_order(languages: Sequence[str]) -> tuple[str, ...]:
    """The languages with English last.

    A word is read in another language only when the one before it is unsure, and English is not unsure of a German word
    whose umlauts it reads as plain letters. Of 411 umlauts in 8 drawn letters, English first lost 9 and German first
    none, in noise 8 and 1; 8 English letters had 0.007 % more wrong characters with German first.
    """
    return tuple(sorted(languages, key=lambda language: language == ENGLISH))


def _inked(image: Image.Image, margin: int) -> tuple[int, int, int, int]:
    """The page (left, top, right, bottom) without what is white beyond a margin: it costs a letter 5 % of its time.

    Only what is perfectly white, as nothing is on a scan in grey: so no ink is ever cut off. Takes 2 ms. The engine's
    own way, `SetRectangle`, loses half of the words of some pages.
    """
    box = ImageChops.invert(image).getbbox()
    if box is None:
        return 0, 0, image.width, image.height
    left, top, right, bottom = box
    return (
        max(0, left - margin),
        max(0, top - margin),
        min(image.width, right + margin),
        min(image.height, bottom + margin),
    )


def _as_small_as_it_reads(image: Image.Image, dpi: int, languages: Sequence[str]) -> tuple[Image.Image, float]:
    """The page reduced, where its smallest print allows it, and by which factor.

    The network is shown each line 36 pixels high, letters without ascenders 17 to 18 of them; finer ones only cost the
    layout analysis time, and keep the grain. See `LEGIBLE`.
    """
    if not LATIN.issuperset(languages):
        return image, 1.0
    letters = least_letters(image, dpi)
    scale = max(SMALLEST, LEGIBLE / letters) if letters else 1.0
    if scale > WORTH_IT:
        return image, 1.0
    size = (round(image.width * scale), round(image.height * scale))
    return image.resize(size, Image.Resampling.BOX), scale


def _room_for(image: Image.Image) -> AbstractContextManager[None]:
    return memory.room(memory.PER_PIXEL * image.width * image.height)


def _bytes_to_load(folder: Path, languages: Sequence[str]) -> int:
    """Of the largest blocks: the files are read whole and copied part by part."""
    return max((folder / (language + SUFFIX)).stat().st_size for language in languages)


def _show(api: Any, image: Image.Image, dpi: int) -> None:
    """Hands over raw pixels, since `SetImage` would compress them to PNG first."""
    if image.mode != "L":
        raise ValueError(f"an image of mode L, not {image.mode}")
    api.SetImageBytes(image.tobytes(), image.width, image.height, 1, image.width)
    api.SetSourceResolution(dpi)


def _runs_downwards(api: Any) -> bool:
    """Whether most words stand in lines that are higher than wide (the iterator's own orientation always says up)."""
    level = tesserocr.RIL.TEXTLINE
    balance = 0
    for line in tesserocr.iterate_level(api.GetIterator(), level):
        left, top, right, bottom = line.BoundingBox(level)
        words = len(line.GetUTF8Text(level).split())
        balance += words if bottom - top > right - left else -words
    return balance > 0


def _lines_within(api: Any, part: tuple[int, int, int, int], scale: float) -> tuple[Line, ...]:
    """The lines that were recognised in a part of a page, reduced by that factor, with their places on the page."""
    return tuple(line.scaled(1 / scale, right=part[0], down=part[1]) for line in _lines(api))


def _lines(api: Any) -> Iterator[Line]:
    """The recognised lines with the places of their words, and the paragraphs that they belong to."""
    line_level, word_level = tesserocr.RIL.TEXTLINE, tesserocr.RIL.WORD
    words: list[Word] = []
    paragraph = 0
    for word in tesserocr.iterate_level(api.GetIterator(), word_level):
        if words and word.IsAtBeginningOf(line_level):
            yield Line(tuple(words), paragraph)
            words = []
        paragraph += word.IsAtBeginningOf(tesserocr.RIL.PARA)
        box = word.BoundingBox(word_level)
        if box is None:
            continue
        for text in normalised_text(word.GetUTF8Text(word_level)).split():
            words.append(Word(text, Box(*box), word.Confidence(word_level)))
    if words:
        yield Line(tuple(words), paragraph)
