"""Pages with text of their own and text in images."""

from __future__ import annotations

import time
from dataclasses import replace

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


@pytest.mark.parametrize("text", ["", lines(LAYER, x=72, top=700)])
def test_an_image_that_is_too_large_costs_those_beside_it_nothing(engine: TesseractEngine, text: str) -> None:
    """Its dictionary asks for 1,225 million pixels on an eighth of the page."""
    huge = "/Width 35000/Height 35000/ColorSpace/DeviceGray/BitsPerComponent 8"
    content = text + placed(72, 100, 200, 300) + placed(330, 500, 216, 96, name="Im2")
    found = read(engine, PdfPage(content, image=Image.new("L", (9, 9)), image_dictionary=huge, more_images=[PICTURE]))
    assert (found.state, found.failure_code) == ("ocr", None)
    assert_whole(found, LAYER if text else (), PICTURED)


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


SENTENCES = [f"some words {name} of a page that is full of them" for name in ("alpha", "bravo", "delta", "gamma") * 5]
FULL = drawn.page(SENTENCES, size=(1400, 1600))  # 336 x 384 points
LETTERS = "THELIF"
CODES = str.maketrans(LETTERS + " ", "abcdefg")
FOOTER = "a footer of many words that goes on and on and is as long as that of a company with all of its accounts"


def layer_over(texts: list[str], *, top: float = 360.0) -> str:
    return "".join(
        shown(text, x=14, y=top - 17.95 * number, points=10.56, hidden=True) for number, text in enumerate(texts)
    )


def test_the_half_of_a_scan_that_was_not_read_is_read(engine: TesseractEngine) -> None:
    """Its other half has more than enough letters to be taken for a page that was read."""
    content = placed(0, 0, 336, 384) + layer_over(SENTENCES[:10])
    found = read(engine, PdfPage(content, size=(336, 384), image=FULL))
    assert (found.state, found.engine_calls) == ("ocr", 1)
    assert_whole(found, tuple(SENTENCES))


def test_a_layer_that_stands_beside_the_words_of_its_scan_is_kept(engine: TesseractEngine) -> None:
    """With another pitch of lines than the scan's, as some programs put it down: what it says is all there once."""
    texts = [f"line {number} says other words than {number * 7} others do" for number in range(20)]
    layer = "".join(shown(text, x=20, y=370 - 12 * at, points=7, hidden=True) for at, text in enumerate(texts))
    page = PdfPage(placed(0, 0, 336, 384) + layer, size=(336, 384), image=drawn.page(texts, size=(1400, 1600)))
    found = read(engine, page)
    assert (found.state, found.text.split()) == ("text", " ".join(texts).split())


def test_of_two_scans_that_touch_the_one_that_was_not_read_is_read(engine: TesseractEngine) -> None:
    second = drawn.page(["other lines stand in the second scan", *drawn.ENGLISH], size=(1400, 600))
    content = placed(0, 144, 336, 384) + placed(0, 0, 336, 144, name="Im2") + layer_over(SENTENCES, top=504)
    found = read(engine, PdfPage(content, size=(336, 528), image=FULL, more_images=[second]))
    assert (found.state, found.engine_calls) == ("ocr", 1)
    assert_whole(found, tuple(SENTENCES), ("other lines stand in the second scan",), drawn.ENGLISH)


def test_a_scan_that_was_read_wholly_costs_no_recognition(engine: TesseractEngine) -> None:
    content = placed(0, 0, 336, 384) + layer_over(SENTENCES)
    found = read(engine, PdfPage(content, size=(336, 384), image=FULL))
    assert (found.state, found.engine_calls) == ("text", 0)
    assert_whole(found, tuple(SENTENCES))


def test_outlines_above_a_long_footer_are_read(engine: TesseractEngine) -> None:
    words = ["THE", "TITLE", "HIT", "THE", "LEFT", "HILL", "FILE", "TELL", "THE", "LIFE"]
    rows = [" ".join(words[start:] + words[:start]) for start in range(6)]
    letters = "".join(
        outlined(letter, 40 + 12 * at, 300 - 30 * row)
        for row, text in enumerate(rows)
        for at, letter in enumerate(text)
        if letter != " "
    )
    footer = "".join(shown(FOOTER, x=20, y=20 + 12 * row, points=7) for row in range(2))
    found = read(engine, PdfPage(letters + footer, size=(620, 360)))
    assert found.state == "ocr"
    assert word_recall(" ".join([*rows, FOOTER, FOOTER]), found.text) >= 0.95, found.text


def test_a_scan_in_a_pattern_is_read(engine: TesseractEngine) -> None:
    page = PdfPage("/Pattern cs /P1 scn 0 0 336 384 re f\n" + shown(FOOTER, x=4, y=390, points=6), size=(336, 400))
    data = drawn.pdf(replace(page, image=FULL))
    scan = data[: data.index(b" 0 obj\n<</Type/XObject/Subtype/Image")].rsplit(b"\n", 1)[-1].decode()
    pattern = drawn.pdf_stream(
        "/Type/Pattern/PatternType 1/PaintType 1/TilingType 1/BBox[0 0 336 384]/XStep 336/YStep 384"
        f"/Resources<</XObject<</Im1 {scan} 0 R>>>>",
        placed(0, 0, 336, 384).encode(),
    )
    patterned = data[: data.index(b"xref")].replace(b"/Resources<<", b"/Resources<</Pattern<</P1 20 0 R>>", 1)
    body = b"20 0 obj\n" + pattern + b"\nendobj\ntrailer\n<</Size 21/Root 1 0 R>>\n%%EOF\n"  # pdfium mends it
    with opened(patterned + body) as source:
        found = read_page(source.page(0), engine, SKIP)
    assert (found.state, found.engine_calls) == ("ocr", 1)
    assert_whole(found, tuple(SENTENCES), (FOOTER,))


def test_a_drawing_and_rules_beside_text_cost_no_recognition(engine: TesseractEngine) -> None:
    rules = "".join(f"60 {100 + 20 * row} 400 0.7 re f\n" for row in range(20))
    bars = "".join(f"{80 + 30 * bar} 500 18 {20 + 9 * bar} re f\n" for bar in range(12))
    curve = "60 500 m " + "".join(f"{60 + 4 * at} {520 + at * at % 70} l " for at in range(100)) + "S\n"
    found = read(engine, PdfPage(rules + bars + curve + lines(LAYER, x=72, top=720)))
    assert (found.state, found.engine_calls) == ("text", 0)
    assert_whole(found, LAYER)


def test_a_label_over_text_says_what_is_seen(engine: TesseractEngine) -> None:
    beneath = tuple(f"covered line number {name} that runs on beside the label" for name in ("one", "two", "three"))
    content = "".join(
        shown(text, x=40, y=572 - 17.95 * number, points=10.56) for number, text in enumerate(beneath)
    ) + placed(40, 500, 216, 96)
    found = read(engine, PdfPage(content + lines(LAYER, x=40, top=720), image=PICTURE))
    assert word_recall(" ".join([*PICTURED, *LAYER]), found.text) == 1.0, found.text
    assert "covered" not in found.text
    assert found.text.count("label") == 3, "beside it the text is seen"


def test_a_short_word_in_an_image_is_read_but_no_check_mark(engine: TesseractEngine) -> None:
    word = drawn.page(["YES"], size=(180, 120))  # "YES" is 18 points wide of these
    narrow = word.crop(ImageChops.invert(word).getbbox()).convert("L")
    width, height = narrow.width * 0.2, narrow.height * 0.2
    assert width < 20
    found = read(engine, PdfPage(lines(LAYER, x=72, top=700) + placed(75, 500, width, height), image=narrow))
    assert_whole(found, LAYER, ("YES",))
    ticks = "".join(placed(61 + 7 * row, 500 - 31 * row, 10, 10) for row in range(6))
    found = read(engine, PdfPage(lines(LAYER, x=72, top=700) + ticks, image=narrow))
    assert (found.state, found.engine_calls) == ("text", 0)


@pytest.mark.parametrize("kind", ["Watermark", "Line", "Ink", "Square", "Redact", "Stamp"])
def test_text_in_the_appearance_of_a_note_is_read(engine: TesseractEngine, kind: str) -> None:
    page = drawn.pdf(PdfPage(shown("An application", y=700), extra="/Annots[9 0 R]"))
    value = b"BT /F1 12 Tf 0 g 4 8 Td (Rejected by Eleanor) Tj ET"
    form = drawn.pdf_stream("/Type/XObject/Subtype/Form/BBox[0 0 220 26]/Resources<</Font<</F1 3 0 R>>>>", value)
    note = f"9 0 obj\n<</Type/Annot/Subtype/{kind}/Rect[200 400 420 426]/F 4/AP<</N 10 0 R>>>>\nendobj\n10 0 obj\n"
    end = b"\nendobj\ntrailer\n<</Size 11/Root 1 0 R>>\n%%EOF\n"
    with opened(page[: page.index(b"xref")] + note.encode() + form + end) as source:
        found = read_page(source.page(0), engine, SKIP)
    assert (found.state, found.text) == ("ocr", "An application\n\nRejected by Eleanor")


def test_words_in_a_font_that_does_not_say_what_its_letters_are_are_read(engine: TesseractEngine) -> None:
    """They are few of the page's words, so that the layer as a whole is good."""
    words = "THE TITLE HIT THE LEFT HILL FILE TELL"
    page = drawn.pdf(
        PdfPage(
            "".join(shown(FOOTER, x=20, y=300 - 12 * row, points=7) for row in range(3))
            + f"BT /F9 20 Tf 40 100 Td ({words.translate(CODES)}) Tj ET\n",
            size=(620, 360),
        )
    )
    body = b"".join(
        b"%d 0 obj\n" % (31 + number)
        + drawn.pdf_stream("", f"12 0 d0 {outlined(letter, 0, 0)}".encode())
        + b"\nendobj\n"
        for number, letter in enumerate(LETTERS)
    )
    glyphs = "".join(f"/g{number} {31 + number} 0 R" for number in range(len(LETTERS)))
    font = (
        "30 0 obj\n<</Type/Font/Subtype/Type3/FontBBox[0 0 12 18]/FontMatrix[.05 0 0 .05 0 0]/FirstChar 97/LastChar 103"
        f"/Widths[12 12 12 12 12 12 12]/CharProcs<<{glyphs}/s 40 0 R>>"
        "/Encoding<</Differences[97/g0/g1/g2/g3/g4/g5/s]>>>>\nendobj\n40 0 obj\n"
    )
    space = drawn.pdf_stream("", b"12 0 d0") + b"\nendobj\n"
    named = page[: page.index(b"xref")].replace(b"/Font<<", b"/Font<</F9 30 0 R", 1)
    with opened(named + body + font.encode() + space + b"trailer\n<</Size 41/Root 1 0 R>>\n%%EOF\n") as source:
        found = read_page(source.page(0), engine, SKIP)
    assert found.state == "ocr"
    assert word_recall(" ".join([words, *[FOOTER] * 3]), found.text) >= 0.97, found.text
    assert "".join(words.translate(CODES).split()) not in "".join(found.text.split())
