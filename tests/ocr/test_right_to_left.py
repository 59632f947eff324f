"""Hebrew and Arabic text layers, drawn with boxes for letters: what they say is in a map to Unicode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.ocr.layout import Box
from batchproc.ocr.right_to_left import in_order, is_disordered
from tests.ocr import drawn
from tests.ocr.reading import opened

HEBREW = "\u05e9\u05dc\u05d5\u05dd \u05e2\u05d5\u05dc\u05dd \u05d8\u05d5\u05d1"
ARABIC = "\u0648\u0632\u0627\u0631\u0629 \u0627\u0644\u062f\u0627\u062e\u0644\u064a\u0629"
ADVANCE = 7.2  # points: six tenths of a letter of 12
RIGHT, LEFT = 300.0, 50.0

Codes = dict[str, int]
Writer = Callable[[str, Codes], str]


def coded(text: str, codes: Codes) -> str:
    return "<" + "".join(f"{codes[letter]:02x}" for letter in text) + ">"


def spelled_out(text: str, shown: str, codes: Codes) -> str:
    return f"/Span<</ActualText<feff{text.encode('utf-16-be').hex()}>>>BDC {coded(shown, codes)} Tj EMC "


def as_seen(text: str, codes: Codes) -> str:
    """From left to right, as most programs write."""
    return f"BT /F1 12 Tf {LEFT} 150 Td {coded(text[::-1], codes)} Tj ET"


def letter_by_letter(text: str, codes: Codes) -> str:
    return "".join(
        f"BT /F1 12 Tf {LEFT + ADVANCE * at} 150 Td {coded(letter, codes)} Tj ET\n"
        for at, letter in enumerate(text[::-1])
    )


def from_the_right(text: str, codes: Codes) -> str:
    """In the order of reading, moving back after each letter."""
    return f"BT /F1 12 Tf {RIGHT} 150 Td [{' 1200 '.join(coded(letter, codes) for letter in text)}] TJ ET"


def letters_spelled_out(text: str, codes: Codes) -> str:
    """As Chrome writes ligatures and the like, on a page that it turns upside down."""
    spans = "".join(spelled_out(letter, letter, codes) for letter in text[::-1])
    return f"1 0 0 -1 0 200 cm BT /F1 12 Tf 1 0 0 -1 {LEFT} 50 Tm {spans} ET"


def some_spelled_out(text: str, codes: Codes) -> str:
    """Letters of the second word, as in a file of Google Docs."""
    first, second = text[::-1].split()[:2]
    spans = "".join(spelled_out(letter, letter, codes) for letter in second)
    return f"BT /F1 12 Tf {LEFT} 150 Td {coded(first + ' ', codes)} Tj {spans} ET"


def words_spelled_out(text: str, codes: Codes) -> str:
    operators, x = "", LEFT
    for word in text.split()[::-1]:
        operators += f"1 0 0 1 {x} 150 Tm " + spelled_out(word, word[::-1], codes)
        x += ADVANCE * (len(word) + 1)
    return f"BT /F1 12 Tf {operators} ET"


def boxes_pdf(writer: Writer, text: str) -> bytes:
    """A page with a font of Type 3 whose glyphs are boxes."""
    letters = sorted(set(text))
    codes = {letter: number for number, letter in enumerate(letters, start=33)}
    chars = " ".join(f"<{code:02x}> <{letter.encode('utf-16-be').hex()}>" for letter, code in codes.items())
    unicode_map = (
        "/CIDInit/ProcSet findresource begin 12 dict begin begincmap/CMapName/X def/CMapType 2 def "
        f"1 begincodespacerange<00><ff>endcodespacerange {len(letters)} beginbfchar {chars} endbfchar endcmap end end"
    )
    names = [f"g{number}" for number in range(len(letters))]
    font = (
        "<</Type/Font/Subtype/Type3/FontBBox[0 0 600 700]/FontMatrix[.001 0 0 .001 0 0]/FirstChar 33"
        f"/LastChar {32 + len(letters)}/Widths[{'600 ' * len(letters)}]"
        f"/CharProcs<<{''.join(f'/{name} 6 0 R' for name in names)}>>"
        f"/Encoding<</Differences[33/{'/'.join(names)}]>>/ToUnicode 7 0 R>>"
    )
    return drawn.pdf_file(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 1/Kids[3 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 400 200]/Resources<</Font<</F1 5 0 R>>>>/Contents 4 0 R>>",
            drawn.pdf_stream("", writer(text, codes).encode()),
            font.encode(),
            drawn.pdf_stream("", b"600 0 d0 50 0 500 700 re f"),
            drawn.pdf_stream("", unicode_map.encode()),
        ]
    )


@pytest.mark.parametrize("text", [HEBREW, ARABIC], ids=["Hebrew", "Arabic"])
@pytest.mark.parametrize(
    "writer",
    [as_seen, letter_by_letter, from_the_right, letters_spelled_out, words_spelled_out],
    ids=lambda writer: writer.__name__,
)
def test_a_line_is_read_from_the_right(writer: Writer, text: str) -> None:
    with opened(boxes_pdf(writer, text)) as source:
        layer = source.page(0).text_layer()
        assert layer is not None
        placed = layer.placed()
        assert placed is not None
        assert layer.text.split() == text.split()
        assert [line.text for line in placed.visible] == [text]


def test_a_line_with_some_letters_spelled_out_is_not_half_turned() -> None:
    with opened(boxes_pdf(some_spelled_out, ARABIC)) as source:
        layer = source.page(0).text_layer()
    assert layer is not None
    assert layer.text == ARABIC


class Letter(NamedTuple):
    text: str
    box: Box


def on_a_line(text: str) -> list[Letter]:
    """As seen, from left to right."""
    return [Letter(letter, Box(10.0 * at, 0.0, 10.0 * at + 10, 12.0)) for at, letter in enumerate(text)]


def read(line: Sequence[Letter], *, mostly_right: bool = False) -> str:
    return "".join(" " if letter is None else letter.text for letter in in_order(line, mostly_right=mostly_right))


@pytest.mark.parametrize(
    ("seen", "text"),
    [
        ("\u05d1 35.40 \u05d0", "\u05d0 35.40 \u05d1"),
        ("\u05d1 34 12 \u05d0", "\u05d0 12 34 \u05d1"),
        ("\u05d1 $50% \u05d0\u05d0", "\u05d0\u05d0 $50% \u05d1"),
        ("\u05d2\u05d1 New York \u05d0\u05d0\u05d0\u05d0\u05d0\u05d0", "\u05d0" * 6 + " New York \u05d1\u05d2"),
        ("\u05d2\u05d1 Paragraph 12 \u05d0", "\u05d0 Paragraph 12 \u05d1\u05d2"),
        ("Report of \u05d1\u05d0 \u05d2 in 2004", "Report of \u05d2 \u05d0\u05d1 in 2004"),
        ("Report of \u05d1\u05d0 12.5 \u05d2 here", "Report of \u05d2 12.5 \u05d0\u05d1 here"),
    ],
)
def test_numbers_and_latin_words_keep_their_direction(seen: str, text: str) -> None:
    assert read(on_a_line(seen), mostly_right="Paragraph" in seen) == text


def test_marks_follow_their_letter() -> None:
    letters = on_a_line("\u05d1\u05d0")
    point = Letter("\u05b8", letters[1].box._replace(top=10.0))
    assert read([point, *letters]) == "\u05d0\u05b8\u05d1"


@given(
    st.lists(st.text("\u05d0\u05d1\u05d2\u0628\u062a\u062b", min_size=1, max_size=6), min_size=1, max_size=6),
    st.randoms(),
)
def test_whatever_the_order_in_a_file_what_is_seen_decides(words: list[str], order: Random) -> None:
    text = " ".join(words)
    line = on_a_line(text[::-1])
    shuffled = list(line)
    order.shuffle(shuffled)
    assert read(shuffled) == text
    assert not is_disordered(line[::-1])
