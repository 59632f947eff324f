"""Drawn documents: repeatable, all different, and readable, so that what recognition misses is its own fault."""

from __future__ import annotations

import re
import sys
from collections import Counter
from contextlib import closing
from pathlib import Path

import pypdfium2  # type: ignore[import-untyped]  # it ships no types
import pytest
import tesserocr
from PIL import Image, ImageChops, ImageStat

from batchproc.ops import drawing
from batchproc.ops.drawing.page import A4, typesetter
from batchproc.ops.drawing.text import VOCABULARIES, Language, letter_text
from tests.drawing import columns, faded, shadowed, stamped, table, text_pdf

LANGUAGES: tuple[Language, ...] = ("eng", "deu")


def words(text: str) -> Counter[str]:
    return Counter(text.lower().split())


def recall(truth: str, image: Image.Image, language: Language) -> float:
    with tesserocr.PyTessBaseAPI(path=f"{sys.prefix}/share/tessdata", lang=language) as engine:
        engine.SetImage(image)
        engine.SetSourceResolution(300)
        found = words(engine.GetUTF8Text())
    return (words(truth) & found).total() / words(truth).total()


@pytest.mark.parametrize("language", LANGUAGES)
def test_letters_are_read_by_recognition(language: Language) -> None:
    clean = drawing.letter(1, language)
    assert recall(clean.text, clean.image, language) >= 0.98
    poor = drawing.letter(2, language, noise=1.0, skew=-1.5)
    assert recall(poor.text, poor.image, language) >= 0.95


def test_same_seed_is_the_same_letter() -> None:
    first, again = (drawing.letter(5, "deu", noise=0.5, skew=0.7, dpi=100) for _ in range(2))
    assert first.text == again.text
    assert first.image.tobytes() == again.image.tobytes()


def test_letters_are_distinct_pages_of_a_letters_length() -> None:
    letters = [drawing.letter(seed, language, dpi=72) for seed in range(40) for language in LANGUAGES]
    assert len({letter.image.tobytes() for letter in letters}) == len({letter.text for letter in letters}) == 80
    counts = [len(letter.text.split()) for letter in letters]
    assert min(counts) >= 250
    assert max(counts) <= 400


def test_picture_is_grey_a4_at_its_resolution() -> None:
    assert (drawing.letter(1).image.mode, drawing.letter(1).image.size) == ("L", (2480, 3508))
    assert drawing.letter(1, dpi=150).image.size == (1240, 1754)


def test_nothing_is_drawn_beyond_the_paper() -> None:
    for seed in range(10):
        for skew in (-3.0, 3.0):
            image = drawing.letter(seed, "deu", dpi=72, skew=skew, paragraphs=12).image
            left, top, right, bottom = ImageChops.invert(image).getbbox() or (0, 0, 0, 0)
            assert 10 < left < right < image.width - 10
            assert 10 < top < bottom < image.height - 10


def test_text_is_what_the_page_has_however_many_paragraphs_are_asked_for() -> None:
    few, many = (drawing.letter(3, paragraphs=number).text for number in (1, 30))
    assert len(few.split()) < len(many.split()) < 600
    for text in (few, many):
        assert text.rstrip().splitlines()[-1] in (
            "Head of Accounts",
            "Customer Service",
            "Legal Department",
            "Director",
        )


def test_noise_and_skew_are_seen() -> None:
    clean, noisy, skewed = (
        drawing.letter(1, dpi=100, **options).image for options in ({}, {"noise": 1.0}, {"skew": 1})
    )
    margin = (0, 0, clean.width, 40)
    assert ImageStat.Stat(clean.crop(margin)).stddev[0] == 0
    assert ImageStat.Stat(noisy.crop(margin)).stddev[0] > 5
    top = [(ImageChops.invert(image).getbbox() or (0, 0, 0, 0))[1] for image in (clean, skewed)]
    assert top[0] != top[1]
    assert ImageStat.Stat(skewed).mean[0] == pytest.approx(ImageStat.Stat(clean).mean[0], rel=0.01)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_sentence_can_be_filled_in_and_every_letter_be_set(language: Language) -> None:
    vocabulary = VOCABULARIES[language]
    slots = {slot for sentence in vocabulary.sentences for slot in re.findall(r"{(\w+)}", sentence)}
    assert slots >= vocabulary.slots.keys()
    letters = [letter_text(seed, language, 30) for seed in range(10)]
    body = " ".join(paragraph for letter in letters for paragraph in letter.body)
    assert "{" not in body
    with typesetter() as setter:
        unset = {character for character in body if setter.width(character, "Times-Roman", 11) <= 0}
    assert unset == set()
    if language == "deu":
        assert set("äöüÄÖÜß") <= set(body + "".join(letter.subject for letter in letters))


def test_png_states_its_resolution(tmp_path: Path) -> None:
    image = drawing.letter(1, dpi=100).image
    drawing.save_png(image, tmp_path / "a.png", dpi=100)
    with Image.open(tmp_path / "a.png") as opened:
        assert opened.info["dpi"] == pytest.approx((100, 100), abs=0.1)
        assert opened.tobytes() == image.tobytes()


def test_scanned_pdf_has_pictures_and_no_text(tmp_path: Path) -> None:
    pages = [drawing.letter(seed, dpi=100).image for seed in range(3)]
    for name in ("a.pdf", "b.pdf"):
        drawing.pdf(pages, tmp_path / name, dpi=100)
    assert (tmp_path / "a.pdf").read_bytes() == (tmp_path / "b.pdf").read_bytes()
    with closing(pypdfium2.PdfDocument(tmp_path / "a.pdf")) as document:
        assert len(document) == 3
        assert document[0].get_size() == pytest.approx(A4, abs=1)
        assert [page.get_textpage().get_text_bounded() for page in document] == ["", "", ""]
        shown = document[1].render(scale=100 / 72).to_pil().convert("L").resize(pages[1].size)
        assert ImageStat.Stat(ImageChops.difference(shown, pages[1])).mean[0] < 12


def test_text_pdf_has_the_text(tmp_path: Path) -> None:
    path = tmp_path / "text.pdf"
    text_pdf("Grüße aus Köln\n\nStraße\f" + "very long line " * 20, path)
    with closing(pypdfium2.PdfDocument(path)) as document:
        texts = [page.get_textpage().get_text_bounded() for page in document]
    assert texts[0].split() == ["Grüße", "aus", "Köln", "Straße"]
    assert texts[1].split() == ["very", "long", "line"] * 20
    assert len(texts[1].splitlines()) > 2
    with pytest.raises(ValueError, match="60 lines do not fit"):
        text_pdf("x\n" * 60, path)


def test_broken_pdf_looks_like_one_and_cannot_be_opened(tmp_path: Path) -> None:
    drawing.broken_pdf(tmp_path / "broken.pdf")
    assert (tmp_path / "broken.pdf").read_bytes().startswith(b"%PDF-1.")
    with pytest.raises(pypdfium2.PdfiumError):
        pypdfium2.PdfDocument(tmp_path / "broken.pdf")


@pytest.mark.parametrize("language", LANGUAGES)
def test_columns_and_tables_are_repeatable_and_stay_on_the_paper(language: Language) -> None:
    for draw in (columns, table):
        first, again, other = (
            draw(3, language, dpi=72, skew=3.0),
            draw(3, language, dpi=72, skew=3.0),
            draw(4, language),
        )
        assert (first.text, first.image.tobytes()) == (again.text, again.image.tobytes())
        assert first.text != other.text
        left, top, right, bottom = ImageChops.invert(first.image).getbbox() or (0, 0, 0, 0)
        assert 10 < left < right < first.image.width - 10
        assert 10 < top < bottom < first.image.height - 10


def test_columns_and_tables_are_read_by_recognition() -> None:
    for drawn in (columns(1), table(1)):
        assert recall(drawn.text, drawn.image, "eng") >= 0.98


def test_a_table_has_a_frame_round_all_its_cells() -> None:
    image = table(1, dpi=72, rows=3).image
    rows = [image.crop((0, row, image.width, row + 1)).histogram() for row in range(image.height)]
    dark = [row for row, levels in enumerate(rows) if sum(levels[:128]) > 400]
    groups = [row for row in dark if row - 1 not in dark]
    assert len(groups) == 5


def test_wear_changes_the_light_and_not_the_size() -> None:
    letter = drawing.letter(1, dpi=72).image
    assert faded(letter, ink=100, paper=200).getextrema() == (100, 200)
    shaded = shadowed(letter, 0.4)
    assert shaded.getpixel((0, 0)) == 255
    assert shaded.getpixel((letter.width - 1, letter.height - 1)) == pytest.approx(0.4 * 255, abs=4)
    marked = stamped(letter, "RECEIVED", 72, ink=120)
    changed = ImageChops.difference(marked, letter).getbbox()
    assert changed is not None
    assert changed[2] - changed[0] > letter.width / 3
    for worn in (shaded, marked, drawing.scanned(letter, 1, 1.0, 72)):
        assert (worn.mode, worn.size) == (letter.mode, letter.size)
    assert drawing.scanned(letter, 1, 1.0, 72).tobytes() == drawing.scanned(letter, 1, 1.0, 72).tobytes()
