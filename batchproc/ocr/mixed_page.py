"""Pages with text of their own and text in images: both are kept, each once, in reading order.

The page is drawn without its own text, so that what is recognised is only what the layer lacks, even under a stamp.
Drawn so, it also tells whether there is more than the images that are known: see `batchproc.ocr.unread_marks`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from PIL import Image, ImageChops, ImageOps

from batchproc.ocr.blank import BLANK_DPI, is_empty, marks_on, paper_level
from batchproc.ocr.engine import Recognised
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.layout import Box, Line, Turn, Word
from batchproc.ocr.pages import PageImage, TextLayer
from batchproc.ocr.reading_order import merged_text
from batchproc.ocr.same_place import WordMap, without
from batchproc.ocr.unread_marks import look_dpi, unread_regions
from batchproc.ocr.with_layout import mean_confidence, picture_turn

FEW_HIDDEN: Final = 20
"""Invisible letters over an image: written by an OCR program, so even a little is all that it found."""

HARDLY_READ: Final = 0.95
"""Part of an image's ink outside the few words of an invisible layer from which on they are a header line or a number,
and the rest was not read: 0.97 of a full page with one line in its layer, 0.90 of a diagram with all its labels."""

FEW_ON_SCAN: Final = 150
"""Visible letters over an image that is most of the page: fewer are a stamp, a court's or a scanner's line."""

LEGIBLE: Final = 60.0
"""Confidence of a line, or of a word in a worse line, within an image of a page that has text of its own. In a map and
in logos real words had 69 and more, most of them 90; others (dashes and strokes apart) 67 at most, mostly 0 to 58."""

SAID: Final = 0.8
"""Part of the words read in an image, where the layer has others, from which on the layer, which has them elsewhere,
was put down carelessly by an OCR program: 0.97 of a letter whose layer had another pitch of lines."""

BORDER: Final = 10.0
"""Points that are put around an image: of letters that touch an edge, Tesseract found none."""

COVERED_DPI: Final = 75
"""Resolution at which a word that is seen changes at least one pixel."""

PAGE_SHARE: Final = 0.5
"""An image that covers more of a page is its scan: how it lies is how the page lies."""


@dataclass(frozen=True)
class MixedText:
    """What came of a layer and recognition together.

    Attributes:
        text: of both.
        confidence: mean over the recognised words in `text`; None without such.
        engine_calls: also those that gave no word worth keeping.
        rotation, skew, languages: see `batchproc.ocr.engine.Recognised`.
        dpi, dpi_estimated: see `batchproc.ocr.pages.PageImage`; None if nothing was recognised.
        lost: what is wrong with a large image whose text is not in `text`, since it is not shown; None without such.
    """

    text: str
    confidence: float | None = None
    engine_calls: int = 0
    rotation: int = 0
    skew: float = 0.0
    languages: tuple[str, ...] = ()
    dpi: int | None = None
    dpi_estimated: bool = False
    lost: OcrFailure | None = None


@dataclass(frozen=True)
class _Region:
    """What was recognised in a part of the page; lines and box in the page's points."""

    box: Box
    lines: tuple[Line, ...]
    found: Recognised
    image: PageImage


def with_images(layer: TextLayer, read: Callable[[PageImage], Recognised], *, dpi: int) -> MixedText | None:
    """The layer's text, and that of images which an OCR program has not read yet.

    Args:
        read: recognises pixels, and says where the words stand.
        dpi: resolution for rendering.

    Returns:
        None if the layer is nothing but a few invisible characters over an image: the page has to be recognised whole.

    Raises:
        OcrFailure: of the engine. An image that cannot be decoded, or is too large, is passed over: the page has text.
    """
    found = _with_images(layer, read, dpi)
    if found is None or not layer.image_regions():
        return found and found[0]
    text, hidden = found
    return replace(text, lost=layer.lost_image(lambda box: _letters_in(box, hidden) >= FEW_ON_SCAN))


def _with_images(
    layer: TextLayer, read: Callable[[PageImage], Recognised], dpi: int
) -> tuple[MixedText, Sequence[Line]] | None:
    """What came of both, and the invisible lines of the layer."""
    regions = layer.image_regions()
    look = _look(layer)
    unread_marks = unread_regions(look, layer.size(), (), regions) if look is not None else ()
    placed = layer.placed() if regions or unread_marks or layer.unmapped > 0 else None
    if placed is None:
        return MixedText(layer.text), ()
    unread = [box for box in regions if _is_unread(layer, box, placed.hidden)]
    others = [line for line in placed.hidden if not _lies_in_any(line, unread)]
    if placed.unmapped:  # they are in the pictures from now on
        look = _look(layer)
    if look is not None:
        words = [word.box for line in others for word in line.words]
        unread += unread_regions(look, layer.size(), words, unread)
    own = sorted([*placed.visible, *others], key=lambda line: line.row or 0)
    if not own:
        return None
    regions_read = list(_read(layer, unread, read, dpi))
    calls = sum(region.found.engine_calls for region in regions_read)
    if _is_displaced(own, regions_read):
        return MixedText(layer.text, engine_calls=calls), placed.hidden
    own, covered = _without_covered(layer, own, regions_read)
    if not own:
        return None
    kept = _worth_keeping(layer, regions_read, own)
    if not kept:
        unchanged = len(others) == len(placed.hidden) and not covered and not placed.unmapped
        return MixedText(layer.text if unchanged else merged_text(own, ()), engine_calls=calls), placed.hidden
    return _put_together(layer, own, kept, calls), placed.hidden


def _look(layer: TextLayer) -> Image.Image | None:
    """The page without its text, at a low resolution; None if that cannot be had."""
    size = layer.size()
    try:
        return layer.picture(Box(0, 0, *size), look_dpi(size)).pixels
    except OcrFailure:
        return None


def _without_covered(layer: TextLayer, own: list[Line], read: Iterable[_Region]) -> tuple[list[Line], bool]:
    """The layer's lines without words that cannot be seen for what is drawn over them, and whether there are such.

    Only what was recognised takes their place: where nothing was, they stay.
    """
    gone: set[int] = set()
    for region in read:
        if any(_legible(region.lines)):
            words = [word for line in own for word in line.words if region.box.holds(word.box.centre)]
            gone.update(map(id, _unseen(layer, region.box, words)))
    return (without(own, lambda word: id(word) in gone), True) if gone else (own, False)


def _unseen(layer: TextLayer, box: Box, words: Sequence[Word]) -> Iterator[Word]:
    """Those words in a part of the page with which it looks as without."""
    if not words:
        return
    try:
        with_text, without_text = (layer.picture(box, COVERED_DPI, with_text=shown).pixels for shown in (True, False))
    except OcrFailure:
        return
    changed = ImageChops.difference(with_text, without_text)
    scale = changed.width / box.width
    for word in words:
        place = Line((word,)).scaled(scale, right=-box.left * scale, down=-box.top * scale).box
        part = changed.crop((round(place.left), round(place.top), round(place.right) + 1, round(place.bottom) + 1))
        if part.getextrema() == (0, 0):
            yield word


def _is_unread(layer: TextLayer, box: Box, hidden: Sequence[Line]) -> bool:
    """Whether no OCR program has read this part of the page, or hardly any of it."""
    letters = _letters_in(box, hidden)
    if letters < FEW_HIDDEN or letters >= FEW_ON_SCAN:
        return letters < FEW_HIDDEN
    try:
        picture = layer.picture(box, BLANK_DPI)
    except OcrFailure:
        return False
    marks = marks_on(picture.pixels, BLANK_DPI)
    scale = marks.width / box.width
    rest = marks.copy()
    for line in hidden:
        place = line.scaled(scale, right=-box.left * scale, down=-box.top * scale).box
        rest.paste(0, (round(place.left), round(place.top), round(place.right) + 1, round(place.bottom) + 1))
    return sum(rest.histogram()[1:]) > HARDLY_READ * sum(marks.histogram()[1:])


def _read(
    layer: TextLayer, regions: Iterable[Box], read: Callable[[PageImage], Recognised], dpi: int
) -> Iterator[_Region]:
    """What is recognised in the regions that are not blank."""
    for box in regions:
        try:
            image = layer.picture(box, dpi)
        except OcrFailure:
            continue
        if is_empty(image.pixels, image.dpi):
            continue
        scale = image.pixels.width / box.width
        border = round(BORDER * scale)
        image = replace(image, pixels=ImageOps.expand(image.pixels, border, paper_level(image.pixels)))
        found = read(image)
        if not found.words:  # a logo's large letters are pictures to Tesseract; 10 ms for one
            image, scale = replace(image, pixels=image.pixels.reduce(2), dpi=image.dpi // 2), scale / 2
            again = read(image)
            found = replace(again, engine_calls=found.engine_calls + again.engine_calls)
        yield _Region(box, tuple(_in_points(box, found, image, scale)), found, image)


def _is_displaced(own: Iterable[Line], read: Iterable[_Region]) -> bool:
    """Whether the layer says what was read, only elsewhere: in those parts of the page it has other words."""
    said, found = Counter[str](), Counter[str]()
    there = 0
    for line in own:
        said.update(word.text for word in line.words)
        there += sum(region.box.holds(word.box.centre) for region in read for word in line.words)
    for region in read:
        found.update(word.text for line in _legible(region.lines) for word in line.words)
    return 2 * there >= found.total() > 0 and (found & said).total() >= SAID * found.total()


def _in_points(box: Box, found: Recognised, image: PageImage, scale: float) -> Iterator[Line]:
    """The lines that were recognised in a part of the page, at their places on the page; `scale` is pixels a point."""
    assert found.layout is not None
    back = picture_turn(found, found.layout, image.pixels.size).back()
    for line in found.layout.lines:
        yield back.line(line).scaled(1 / scale, right=box.left - BORDER, down=box.top - BORDER)


def _worth_keeping(layer: TextLayer, regions: Iterable[_Region], own: Sequence[Line]) -> list[_Region]:
    """The regions with the lines that add to the layer: without its own words, and without scrawl unless on a scan."""
    words = WordMap(word for line in own for word in line.words)
    few = sum(map(str.isalnum, "".join(line.text for line in own))) < FEW_ON_SCAN
    kept = []
    for region in regions:
        is_scan = few and _is_most_of(layer, region.box)
        lines = region.lines if is_scan else _legible(region.lines)
        if left := without(lines, words.covers):
            kept.append(replace(region, lines=tuple(left)))
    return kept


def _legible(lines: Iterable[Line]) -> Iterator[Line]:
    """What seems to be text in a picture: good lines, and of the others the good words."""
    for line in lines:
        if mean_confidence(line.words) >= LEGIBLE and any(map(str.isalnum, line.text)):
            yield line
        else:
            yield from without([line], lambda word: not _is_clear(word))


def _is_clear(word: Word) -> bool:
    return word.confidence is not None and word.confidence >= LEGIBLE and sum(map(str.isalnum, word.text)) > 1


def _is_most_of(layer: TextLayer, box: Box) -> bool:
    return box.area >= PAGE_SHARE * Box(0, 0, *layer.size()).area


def _put_together(layer: TextLayer, own: Sequence[Line], kept: Sequence[_Region], calls: int) -> MixedText:
    largest = max(kept, key=lambda region: region.box.area)
    scan = largest.found if _is_most_of(layer, largest.box) else None
    turn = Turn.by_quarters(scan.rotation if scan else 0, layer.size())
    lines = [turn.line(line) for line in _numbered(kept)]
    words = [word for line in lines for word in line.words]
    return MixedText(
        merged_text([turn.line(line) for line in own], lines),
        mean_confidence(words),
        calls,
        scan.rotation if scan else 0,
        scan.skew if scan else 0.0,
        largest.found.languages,
        largest.image.dpi,
        largest.image.dpi_estimated,
    )


def _numbered(regions: Iterable[_Region]) -> Iterator[Line]:
    """The lines of all regions, their paragraphs numbered through."""
    offset = 0
    for region in regions:
        for line in region.lines:
            yield replace(line, block=offset + line.block)
        offset += max(line.block for line in region.lines) + 1


def _letters_in(box: Box, lines: Iterable[Line]) -> int:
    return sum(sum(map(str.isalnum, word.text)) for line in lines for word in line.words if box.holds(word.box.centre))


def _lies_in_any(line: Line, boxes: Iterable[Box]) -> bool:
    return any(box.holds(line.box.centre) for box in boxes)
