from __future__ import annotations

import pytest
from PIL import Image

from batchproc.ocr.layout import Box
from batchproc.ocr.pages import PlacedText
from batchproc.ocr.text_layer import is_real
from tests.ocr import drawn
from tests.ocr.drawn import PdfPage, placed, shown
from tests.ocr.reading import opened

GREY = Image.new("L", (100, 100), 128)
FULL_PAGE = placed(0, 0, 612, 792)
SENTENCE = "It is not the words that make a page but what they say to those who read it in the end"
SHIFTED = "".join(chr(ord(letter) - 29) if letter.islower() else letter for letter in SENTENCE)
"""As a font says it whose mapping is off: "lt" is "OW"."""


def real(page: PdfPage) -> bool:
    with opened(drawn.pdf(page)) as source:
        layer = source.page(0).text_layer()
        return layer is not None and is_real(layer)


def placed_text(page: PdfPage) -> PlacedText:
    with opened(drawn.pdf(page)) as source:
        layer = source.page(0).text_layer()
        assert layer is not None
        found = layer.placed()
    assert found is not None
    return found


def regions(page: PdfPage) -> tuple[Box, ...]:
    with opened(drawn.pdf(page)) as source:
        layer = source.page(0).text_layer()
        assert layer is not None
        return layer.image_regions()


@pytest.mark.parametrize(
    ("content", "is_text"),
    [
        pytest.param(shown("Page 7"), True, id="a page number"),
        pytest.param(shown("1"), True, id="a digit"),
        pytest.param(shown("Heading..............................................1"), True, id="leaders"),
        pytest.param(shown('"-+%-!'), False, id="no letters"),
        pytest.param(shown("x" * 40), False, id="one glyph"),
        pytest.param(shown("lI" * 20), False, id="two glyphs"),
        pytest.param(shown(SENTENCE), True, id="a sentence"),
        pytest.param(shown(2 * SHIFTED, points=2), False, id="shifted"),
        pytest.param(shown("Microscopic letters", points=0.2, hidden=True), False, id="microscopic"),
        pytest.param(shown("Microprint", points=1.2), True, id="micro-print"),
        pytest.param(shown("Monstrous letters", points=9000, x=-900, hidden=True), False, id="monstrous"),
        pytest.param("".join(shown(c, x=300) for c in "Everything on one spot"), False, id="on one spot"),
        pytest.param(shown("Beside the page", x=700), False, id="outside"),
        pytest.param(shown("Beside the page", x=700) + shown("and on it"), True, id="partly outside"),
    ],
)
def test_what_real_text_is(content: str, is_text: bool) -> None:
    assert real(PdfPage(content)) is is_text


def test_on_a_sheet_that_was_scaled_down_letters_are_as_small() -> None:
    assert real(PdfPage(shown("Letters of a small sheet", x=3, y=30, points=0.5), size=(30, 42)))
    assert not real(PdfPage(shown("Letters of a small sheet", x=3, y=30, points=0.02), size=(30, 42)))


def test_what_lies_outside_the_part_that_is_shown_does_not_count() -> None:
    data = drawn.pdf(PdfPage(shown("Cut off", y=700) + shown("Kept", y=100), extra="/CropBox[0 0 612 400]"))
    with opened(data) as source:
        layer = source.page(0).text_layer()
        assert layer is not None
        placed_lines = layer.placed()
        assert placed_lines is not None
        assert (layer.text, [line.text for line in placed_lines.visible]) == ("Kept", ["Kept"])


@pytest.mark.parametrize("language", ["Die Bäume müssen über Nacht größer geworden sein, sagte der Förster", SENTENCE])
def test_capitals_and_umlauts_are_a_language(language: str) -> None:
    assert real(PdfPage(shown(language.upper() * 2, points=4)))


@pytest.mark.parametrize(
    ("content", "visible", "hidden"),
    [
        (shown("Seen"), ["Seen"], []),
        (shown("Unseen", hidden=True), [], ["Unseen"]),
        (shown("Behind", y=100) + FULL_PAGE + shown("Before", y=200), ["Before"], ["Behind"]),
        (shown("Beside", y=700) + placed(0, 0, 300, 300), ["Beside"], []),
        (FULL_PAGE + shown("OCR", hidden=True) + shown("Stamp", y=650), ["Stamp"], ["OCR"]),
    ],
)
def test_hidden_and_visible_text_are_told_apart(content: str, visible: list[str], hidden: list[str]) -> None:
    found = placed_text(PdfPage(content, image=GREY))
    assert [line.text for line in found.visible] == visible
    assert [line.text for line in found.hidden] == hidden


@pytest.mark.parametrize(
    ("turn", "box"),
    [(0, (72, 81, 132, 95)), (90, (697, 72, 711, 132)), (180, (480, 697, 540, 711)), (270, (81, 480, 95, 540))],
)
def test_places_are_those_of_the_page_as_it_is_shown(turn: int, box: tuple[int, int, int, int]) -> None:
    found = placed_text(PdfPage(shown("Place here", y=700), extra=f"/Rotate {turn}"))
    (line,) = found.visible
    assert line.box == pytest.approx(box, abs=3)


def test_parts_of_a_row_that_stand_apart_are_parts() -> None:
    rows = "".join(shown("Name", y=y) + shown("Price", x=400, y=y) for y in (700, 680))
    lines = placed_text(PdfPage(rows)).visible
    assert [(line.text, line.row) for line in lines] == [("Name", 0), ("Price", 0), ("Name", 1), ("Price", 1)]


def test_a_hyphen_ends_its_line() -> None:
    lines = placed_text(PdfPage(shown("it is hy-") + shown("phenated", y=686))).visible
    assert [line.text for line in lines] == ["it is hy-", "phenated"]


@pytest.mark.parametrize(
    ("content", "boxes"),
    [
        (shown("alone"), []),
        (shown("x") + placed(100, 300, 200, 50), [(100, 442, 300, 492)]),
        (shown("x") + placed(100, 300, 5, 5), []),  # a bullet
        (shown("x") + placed(62, 301, 500, 1), []),  # a rule
        (shown("x") + "".join(placed(0, 8 * strip, 612, 8) for strip in range(99)), [(0, 0, 612, 792)]),
        (shown("x") + placed(700, 300, 200, 50), []),
        (shown("x") + placed(72, 600, 60, 60) + placed(400, 60, 60, 60), [(72, 132, 132, 192), (400, 672, 460, 732)]),
    ],
)
def test_where_images_are(content: str, boxes: list[tuple[int, int, int, int]]) -> None:
    found = regions(PdfPage(content, image=GREY))
    assert len(found) == len(boxes)
    for region, box in zip(found, boxes, strict=True):
        assert region == pytest.approx(box, abs=7)


def test_an_image_within_a_form_counts_by_its_place_on_the_page() -> None:
    content = "q 2 0 0 2 0 0 cm /Fm1 Do Q\n" + shown("Scanned")
    (region,) = regions(PdfPage(content, image=GREY, form=placed(0, 0, 153, 198)))
    assert region == pytest.approx((0, 396, 306, 792), abs=7)


def test_a_picture_of_a_region_lacks_the_layers_text() -> None:
    content = placed(0, 0, 100, 100) + shown("Caption", x=10, y=40, points=20)
    with opened(drawn.pdf(PdfPage(content, size=(200, 100), image=GREY))) as source:
        page = source.page(0)
        layer = page.text_layer()
        assert layer is not None
        part = layer.picture(Box(0, 0, 100, 100), 72)
        assert (part.pixels.size, part.pixels.getextrema(), part.dpi) == ((100, 100), (128, 128), 72)
        assert layer.picture(Box(100, 0, 200, 100), 72).pixels.getextrema() == (255, 255)
        whole = page.image(72).pixels.getextrema()
    assert whole == (0, 255)


def test_the_largest_part_of_many_images_is_taken_as_one() -> None:
    content = "".join(placed(60 * (n % 10), 70 * (n // 10), 20, 30) for n in range(60)) + shown("x", y=780)
    (region,) = regions(PdfPage(content, image=GREY))
    assert region.width > 500
    assert region.height > 350
