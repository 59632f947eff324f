"""Pages with text of their own and text in images."""

from __future__ import annotations

import time

import pytest
from PIL import Image, ImageChops, ImageDraw

from batchproc.ocr.page_text import PageOptions, PageText, read_page
from batchproc.ocr.recall import word_recall
from batchproc.ocr.tesseract import TesseractEngine
from tests.ocr import drawn
from tests.ocr.drawn import PdfPage, placed, shown
from tests.ocr.reading import opened

SKIP = PageOptions(("eng",))
LAYER = ("Digital words come first here", "and are never misread because", "nobody has to look at them")
PICTURE = drawn.page()  # 216 x 96 points
PICTURED = drawn.ENGLISH
MARKS = {"digital": "quick", "picture": "Digital"}


def read(engine: TesseractEngine, page: PdfPage, options: PageOptions = SKIP) -> PageText:
    with opened(drawn.pdf(page)) as source:
        return read_page(source.page(0), engine, options)


def lines(texts: tuple[str, ...], *, x: float, top: float, hidden: bool = False) -> str:
    return "".join(
        shown(text, x=x, y=top - 17.9 * number, points=10.56, hidden=hidden) for number, text in enumerate(texts)
    )


def positions(text: str, *words: str) -> list[int]:
    found = [text.find(word) for word in words]
    assert -1 not in found, text
    return found


def assert_whole(found: PageText, *texts: tuple[str, ...]) -> None:
    """Each word is there, and none twice."""
    expected = " ".join(word for text in texts for word in text)
    assert word_recall(expected, found.text) == 1.0, found.text
    assert found.words == len(found.text.split()) == len(expected.split()), found.text


@pytest.mark.parametrize(
    ("content", "order"),
    [
        pytest.param(lines(LAYER, x=50, top=700) + placed(50, 500, 216, 96), ("Digital", "quick"), id="below"),
        pytest.param(lines(LAYER, x=50, top=400) + placed(50, 500, 216, 96), ("quick", "Digital"), id="above"),
        pytest.param(lines(LAYER, x=50, top=580) + placed(330, 500, 216, 96), ("Digital", "quick"), id="to the right"),
        pytest.param(lines(LAYER, x=330, top=580) + placed(50, 500, 216, 96), ("quick", "Digital"), id="to the left"),
        pytest.param(
            lines(LAYER[:1], x=50, top=700) + placed(50, 500, 216, 96) + lines(LAYER[1:], x=50, top=400),
            ("first", "quick", "misread"),
            id="amid",
        ),
    ],
)
def test_text_of_an_image_stands_where_it_is_read(
    engine: TesseractEngine, content: str, order: tuple[str, ...]
) -> None:
    found = read(engine, PdfPage(content, image=PICTURE))
    assert_whole(found, LAYER, PICTURED)
    assert positions(found.text, *order) == sorted(positions(found.text, *order))
    assert (found.state, found.dpi, found.languages, found.engine_calls) == ("ocr", 300, ("eng",), 1)
    assert found.confidence is not None
    assert found.confidence > 80
    assert all(text in found.text for text in LAYER), "the layer's lines are left as they are"


@pytest.mark.parametrize("turn", [90, 180, 270])
def test_a_page_that_is_shown_turned(engine: TesseractEngine, turn: int) -> None:
    """The text is upright as the page is shown; without the turn both would lie."""
    scan, size = PICTURE, (400.0, 300.0)
    matrix = {90: "0 1 -1 0 400 0", 180: "-1 0 0 -1 400 300", 270: "0 -1 1 0 0 300"}[turn]
    sheet = size if turn == 180 else (size[1], size[0])
    if turn != 180:
        matrix = {90: "0 1 -1 0 300 0", 270: "0 -1 1 0 0 400"}[turn]
    content = f"q {matrix} cm\n{lines(LAYER, x=40, top=250)}{placed(40, 50, 216, 96)}Q\n"
    found = read(engine, PdfPage(content, size=sheet, image=scan, extra=f"/Rotate {turn}"))
    assert_whole(found, LAYER, PICTURED)
    assert positions(found.text, "Digital", "quick") == sorted(positions(found.text, "Digital", "quick"))
    assert found.rotation == 0


def test_a_picture_that_lies_on_its_side(engine: TesseractEngine) -> None:
    lying = PICTURE.rotate(90, expand=True)
    found = read(engine, PdfPage(lines(LAYER, x=50, top=700) + placed(50, 400, 96, 216), image=lying))
    assert_whole(found, LAYER, PICTURED)
    assert found.rotation == 0, "the page itself was not turned"


def test_columns_of_which_one_is_an_image_are_not_interleaved(engine: TesseractEngine) -> None:
    digital = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel"]
    pictured = ["india", "juliet", "kilo", "lima", "mike", "november", "oscar", "papa"]
    layer = tuple(f"{word} stands in a column" for word in digital)
    image = drawn.page([f"{word} stands in an image" for word in pictured], size=(900, 700))
    for x, image_x, expected in ((50, 330, digital + pictured), (330, 50, pictured + digital)):
        for offset in (0, 5, 9):
            content = lines(layer, x=x, top=560 - offset) + placed(image_x, 420, 216, 168)
            found = read(engine, PdfPage(content, image=image))
            assert [word for word in found.text.split() if word in expected] == expected


def test_text_over_an_image_is_read_once(engine: TesseractEngine) -> None:
    content = placed(50, 500, 216, 96) + shown("Figure caption", x=60, y=508, points=9)
    found = read(engine, PdfPage(content, image=PICTURE))
    assert_whole(found, ("Figure caption",), PICTURED)


def test_a_form_that_is_filled_in_digitally(engine: TesseractEngine) -> None:
    form = Image.new("L", (1275, 600), 255)
    ends = []
    for row, label in enumerate(("Name of the person:", "Town of residence:", "Date of arrival:")):
        drawn_label = drawn.page([label], size=(600, 140))
        form.paste(drawn_label, (0, 150 * row))
        box = ImageChops.invert(drawn_label).getbbox()
        assert box is not None
        ends.append(box[2] * 0.24)
    values = ("Eleanor Whitfield", "Canterbury", "Thursday")
    content = placed(0, 0, 306, 144)
    content += "".join(
        shown(value, x=end + 4, y=144 - 36 * row - 24, points=10.5)
        for row, (value, end) in enumerate(zip(values, ends, strict=True))
    )
    found = read(engine, PdfPage(content, size=(306, 144), image=form))
    assert_whole(found, ("Name of the person: Town of residence: Date of arrival:",), values)
    order = positions(found.text, "Name", "Eleanor", "Town", "Canterbury", "Date", "Thursday")
    assert order == sorted(order), found.text


def test_a_searchable_scan_is_left_alone(engine: TesseractEngine) -> None:
    content = placed(0, 0, 216, 96) + lines(PICTURED, x=14, top=72, hidden=True)
    found = read(engine, PdfPage(content, size=(216, 96), image=PICTURE))
    assert (found.state, found.engine_calls, found.languages, found.dpi) == ("text", 0, (), None)
    assert_whole(found, PICTURED)


def test_of_two_scans_on_a_page_the_one_that_was_not_read_is_read(engine: TesseractEngine) -> None:
    second = drawn.page(drawn.ENGLISH[::-1])
    content = placed(50, 600, 216, 96) + lines(LAYER, x=64, top=672, hidden=True) + placed(50, 300, 216, 96, name="Im2")
    found = read(engine, PdfPage(content, image=PICTURE, more_images=[second]))
    assert_whole(found, LAYER, PICTURED)
    assert found.engine_calls == 1
    assert positions(found.text, "Digital", "seven", "quick") == sorted(
        positions(found.text, "Digital", "seven", "quick")
    )


def test_a_stamp_over_a_scan_is_kept_and_the_scan_is_read_even_under_it(engine: TesseractEngine) -> None:
    stamp = shown("COPY", x=20, y=20, points=60) + shown("Filed 04-05-20", x=120, y=4, points=7)
    found = read(engine, PdfPage(placed(0, 0, 216, 96) + stamp, size=(216, 96), image=PICTURE))
    assert found.state == "ocr"
    assert_whole(found, ("COPY", "Filed 04-05-20"), PICTURED)


def test_stray_invisible_characters_over_a_scan_do_not_count(engine: TesseractEngine) -> None:
    content = placed(0, 0, 216, 96) + shown("l . ii", x=20, y=40, hidden=True)
    found = read(engine, PdfPage(content, size=(216, 96), image=PICTURE))
    assert_whole(found, PICTURED)
    both = content.replace("0 0 216 96", "0 0 216 96") + shown("Visible", x=150, y=4, points=7)
    assert_whole(read(engine, PdfPage(both, size=(216, 96), image=PICTURE)), PICTURED, ("Visible",))


def test_a_header_line_is_not_the_text_of_a_scan(engine: TesseractEngine) -> None:
    texts = [f"some words {name} of a page that is full of them" for name in ("alpha", "bravo", "delta", "gamma") * 7]
    scan = drawn.page(texts, size=(1400, 2200))
    header = shown("some words alpha of a page that is full of them", x=14, y=504, points=10.5, hidden=True)
    page = PdfPage(placed(0, 0, 336, 528) + header, size=(336, 528), image=scan)
    found = read(engine, page)
    assert found.state == "ocr"
    assert word_recall(" ".join(texts), found.text) >= 0.99
    assert found.words == len(" ".join(texts).split())


def test_text_that_an_image_covers_is_what_an_ocr_program_wrote(engine: TesseractEngine) -> None:
    content = lines(PICTURED, x=14, top=72) + placed(0, 0, 216, 96)
    found = read(engine, PdfPage(content, size=(216, 96), image=PICTURE))
    assert (found.state, found.engine_calls) == ("text", 0)
    assert_whole(found, PICTURED)


def test_text_in_outlines_is_read(engine: TesseractEngine) -> None:
    """As a printer's program writes it; the page number is text."""
    words = "THE TITLE HIT THE LEFT HILL"
    letters = "".join(outlined(letter, 40 + 14 * at, 60) for at, letter in enumerate(words) if letter != " ")
    found = read(engine, PdfPage(letters + shown("12", x=150, y=10), size=(460, 120)))
    assert found.state == "ocr"
    assert_whole(found, (words, "12"))
    assert positions(found.text, "HILL", "12") == sorted(positions(found.text, "HILL", "12"))


def outlined(letter: str, x: float, y: float) -> str:
    """A capital as strokes that are filled outlines, with as many points as a font's curves have."""
    strokes = {
        "L": [(0, 0, 2, 18), (0, 0, 10, 2)],
        "E": [(0, 0, 2, 18), (0, 0, 10, 2), (0, 8, 8, 2), (0, 16, 10, 2)],
        "H": [(0, 0, 2, 18), (9, 0, 2, 18), (0, 8, 11, 2)],
        "I": [(4, 0, 2, 18)],
        "T": [(4, 0, 2, 18), (0, 16, 10, 2)],
        "F": [(0, 0, 2, 18), (0, 8, 8, 2), (0, 16, 10, 2)],
    }[letter]
    path = ""
    for left, bottom, width, height in strokes:
        path += f"{x + left} {y + bottom} m\n"
        path += "".join(f"{x + left + width * step / 20} {y + bottom} l\n" for step in range(1, 21))
        path += "".join(f"{x + left + width} {y + bottom + height * step / 20} l\n" for step in range(1, 21))
        path += f"{x + left} {y + bottom + height} l h\n"
    return path + "f\n"


def test_decoration_costs_no_recognition(engine: TesseractEngine) -> None:
    gradient = Image.linear_gradient("L").point([200 + level // 5 for level in range(256)])
    bullets = "".join(placed(50, 700 - 20 * row, 6, 6) for row in range(20))
    for content in (placed(0, 0, 612, 792), bullets):
        found = read(engine, PdfPage(content + lines(LAYER, x=72, top=600), image=gradient))
        assert (found.state, found.engine_calls, found.languages) == ("text", 0, ())
        assert_whole(found, LAYER)


def test_a_picture_without_words_adds_none(engine: TesseractEngine) -> None:
    drawing = Image.new("L", (300, 300), 255)
    ImageDraw.Draw(drawing).line((20, 20, 280, 150, 20, 280, 20, 20), fill=0, width=9)
    found = read(engine, PdfPage(lines(LAYER, x=72, top=700) + placed(72, 400, 72, 72), image=drawing))
    assert (found.state, found.languages, found.confidence, found.dpi) == ("text", (), None, None)
    assert found.engine_calls >= 1, "it was looked at"
    assert found.seconds < 1
    assert_whole(found, LAYER)


def test_an_image_too_large_to_be_decoded_costs_the_page_nothing_but_its_text(engine: TesseractEngine) -> None:
    huge = "/Width 35000/Height 35000/ColorSpace/DeviceGray/BitsPerComponent 8"
    page = PdfPage(lines(LAYER, x=72, top=700) + placed(72, 100, 300, 300), image=PICTURE, image_dictionary=huge)
    found = read(engine, page)
    assert (found.state, found.engine_calls) == ("text", 0)
    assert_whole(found, LAYER)


@pytest.mark.parametrize(
    "content",
    [
        pytest.param("".join(placed(n % 300 * 2, n // 300 * 2, 1.5, 1.5) for n in range(100_000)), id="tiny images"),
        pytest.param(
            f"BT /F1 1 Tf 1 TL 20 780 Td {'(words upon words in rows) Tj T* ' * 20_000} ET\n", id="characters"
        ),
        pytest.param("0 0 m 9 9 l S\n" * 200_000, id="paths"),
    ],
)
@pytest.mark.long
def test_any_number_of_objects_ends_quickly(engine: TesseractEngine, content: str) -> None:
    dot = Image.new("L", (1, 1), 255)
    started = time.process_time()
    found = read(engine, PdfPage(content + lines(LAYER, x=72, top=700) + placed(50, 500, 216, 96), image=dot))
    assert found.state == "text"
    assert time.process_time() - started < 20


@pytest.mark.long
def test_text_in_too_many_pieces_is_recognised(engine: TesseractEngine) -> None:
    pieces = "".join(shown(".", x=n % 600, y=n // 600, points=0.1) for n in range(60_000))
    started = time.process_time()
    found = read(engine, PdfPage(pieces + lines(LAYER, x=72, top=700)))
    assert found.state == "ocr"
    assert word_recall(" ".join(LAYER), found.text) == 1.0
    assert time.process_time() - started < 20


def test_a_form_field_that_is_filled_in_is_read(engine: TesseractEngine) -> None:
    """A viewer draws its value; no layer has it."""
    value = b"BT /F1 12 Tf 0 g 4 8 Td (Eleanor Whitfield) Tj ET"
    page = drawn.pdf(PdfPage(shown("Name of the person", y=700), extra="/Annots[9 0 R]"))
    assert page.count(b" 0 obj") == 5
    body = b"\n".join(
        (
            b"1 0 obj\n<</Type/Catalog/Pages 2 0 R/AcroForm<</Fields[9 0 R]>>>>\nendobj",
            b"9 0 obj\n<</Type/Annot/Subtype/Widget/FT/Tx/T(name)/Rect[200 690 420 716]/F 4/AP<</N 10 0 R>>>>\nendobj",
            b"10 0 obj\n"
            + drawn.pdf_stream("/Type/XObject/Subtype/Form/BBox[0 0 220 26]/Resources<</Font<</F1 3 0 R>>>>", value)
            + b"\nendobj\n",
        )
    )
    damaged = page[: page.index(b"xref")] + body + b"trailer\n<</Size 11/Root 1 0 R>>\n%%EOF\n"  # pdfium mends it
    with opened(damaged) as source:
        found = read_page(source.page(0), engine, SKIP)
    assert (found.state, found.text) == ("ocr", "Name of the person\n\nEleanor Whitfield")
