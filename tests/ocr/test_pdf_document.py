from __future__ import annotations

import errno
import io
import textwrap
import zlib
from contextlib import closing
from typing import Literal

import pytest
from PIL import Image

from batchproc.ocr import pdf_document
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.page_text import PageOptions, read_page
from batchproc.ocr.recall import word_recall
from batchproc.ocr.source import open_source
from batchproc.ocr.stream import SourceStream
from batchproc.ocr.tesseract import TesseractEngine
from tests.ocr import bombs, drawn
from tests.ocr.encrypted import encrypted_pdf
from tests.ocr.reading import fails_as, image_of, layer_of, opened

ASTERISKS = "f\u00f6rster-\u00df"
CATALOG = b"<</Type/Catalog/Pages 2 0 R%s>>"
PAGES = b"<</Type/Pages/Count 1/Kids[3 0 R]>>"
PAGE = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]>>"


Mode = Literal["skip", "redo", "force"]


def text_with(data: bytes, *passwords: str) -> str | None:
    with closing(open_source(io.BytesIO(data), bounds=Bounds(), passwords=lambda: passwords)) as source:
        layer = source.page(0).text_layer()
    return None if layer is None else layer.text


def flags_of(data: bytes) -> tuple[str, ...]:
    with opened(data) as source:
        return source.flags


def test_what_only_an_owner_may_change_is_read_by_everybody() -> None:
    layer = layer_of(encrypted_pdf("Good morning"))
    assert layer is not None
    assert layer.text == "Good morning"


def test_passwords_are_asked_for_only_when_one_is_needed() -> None:
    def must_not() -> list[str]:
        raise AssertionError("asked for passwords")

    for data in (encrypted_pdf("x"), drawn.pdf(drawn.PdfPage(drawn.shown("x")))):
        open_source(io.BytesIO(data), bounds=Bounds(), passwords=must_not).close()


@pytest.mark.parametrize("given", [("secret",), ("no", "", "secret"), ("the owner's",)])
def test_one_of_the_passwords_opens(given: tuple[str, ...]) -> None:
    data = encrypted_pdf("Good morning", user=b"secret", owner=b"the owner's")
    assert text_with(data, *given) == "Good morning"


def test_a_password_in_latin_1_opens_though_it_is_given_as_text() -> None:
    assert text_with(encrypted_pdf("Good morning", user=ASTERISKS.encode("latin-1")), ASTERISKS) == "Good morning"


def test_without_the_right_password_it_is_encrypted() -> None:
    data = encrypted_pdf("x", user=b"secret")
    with fails_as("encrypted"), opened(data):
        pass
    with fails_as("encrypted"):
        text_with(data, "wrong", "Secret")


def test_a_dynamic_form_is_flagged() -> None:
    stub = [
        CATALOG % b"/NeedsRendering true/AcroForm<</XFA 4 0 R/Fields[]>>",
        PAGES,
        PAGE,
        drawn.pdf_stream("", b"<x/>"),
    ]
    assert flags_of(drawn.pdf_file(stub)) == ("xfa",)
    static = [CATALOG % b"/NeedsRendering false/AcroForm<</XFA 4 0 R/Fields[]>>", *stub[1:]]
    assert flags_of(drawn.pdf_file(static)) == ()


def test_a_portfolio_is_flagged() -> None:
    assert flags_of(drawn.pdf_file([CATALOG % b"/Collection<</View/D>>", PAGES, PAGE])) == ("portfolio",)
    assert flags_of(drawn.pdf_file([CATALOG % b"/CollectionItem<<>>", PAGES, PAGE])) == ()


def test_a_catalog_within_an_object_stream_is_looked_into() -> None:
    catalog, pages = CATALOG % b"/Collection<</View/T>>", PAGES
    head = f"1 0 2 {len(catalog) + 1} ".encode()
    objects = zlib.compress(head + catalog + b" " + pages)
    stream = drawn.pdf_stream(f"/Type/ObjStm/N 2/First {len(head)}/Filter/FlateDecode", objects)
    data = b"%PDF-1.5\n3 0 obj\n" + PAGE + b"\nendobj\n"
    at = {3: len(b"%PDF-1.5\n"), 4: len(data)}
    data += b"4 0 obj\n" + stream + b"\nendobj\n"
    at[5] = len(data)
    entries = [(0, 0, 0), (2, 4, 0), (2, 4, 1), (1, at[3], 0), (1, at[4], 0), (1, at[5], 0)]
    table = b"".join(
        kind.to_bytes(1, "big") + place.to_bytes(4, "big") + bytes([index]) for kind, place, index in entries
    )
    data += b"5 0 obj\n" + drawn.pdf_stream("/Type/XRef/Size 6/W[1 4 1]/Root 1 0 R", table) + b"\nendobj\n"
    data += f"startxref\n{at[5]}\n%%EOF\n".encode()
    assert flags_of(data) == ("portfolio",)


def test_a_signed_document_is_flagged_and_read() -> None:
    field = b"<</Type/Annot/Subtype/Widget/FT/Sig/T(s)/Rect[0 0 0 0]/P 3 0 R/V 5 0 R>>"
    signature = b"<</Type/Sig/Filter/Adobe.PPKLite/SubFilter/adbe.pkcs7.detached/ByteRange[0 1 2 3]/Contents<00>>>"
    catalog = CATALOG % b"/AcroForm<</Fields[4 0 R]/SigFlags 3>>"
    with opened(drawn.pdf_file([catalog, PAGES, PAGE, field, signature])) as source:
        assert (source.flags, source.page_count) == (("signed",), 1)


def test_marks_on_the_border_of_two_windows_are_found() -> None:
    """The file is gone through in pieces of a mebibyte, whose first begins at its beginning."""
    mark = CATALOG % b"/Collection<</View/D>>"
    for shift in (1, 10, len(mark)):
        filler = b"%" + b"x" * ((1 << 20) - shift - len(b"%PDF-1.4\n%\n1 0 obj\n")) + b"\n"
        data = drawn.pdf_file([mark, PAGES, PAGE]).replace(b"%PDF-1.4\n", b"%PDF-1.4\n" + filler)
        assert "portfolio" in flags_of(data)


def test_a_document_that_is_opened_afresh_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """As happens when much of it was read, so that pdfium does not keep it all."""
    monkeypatch.setattr(pdf_document, "MOST_KEPT", 0)
    with opened(drawn.pdf(*[drawn.PdfPage(drawn.shown(f"Page {number}")) for number in range(3)])) as source:
        for index in (0, 2, 1, 2):
            layer = source.page(index).text_layer()
            assert layer is not None
            assert layer.text == f"Page {index}"
    assert text_with(encrypted_pdf("Good morning", user=b"secret"), "no", "secret") == "Good morning"


def test_storage_that_fails_meanwhile_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pdf_document, "MOST_KEPT", 0)
    data = drawn.pdf(*[drawn.PdfPage(drawn.shown("x")) for _ in range(2)])
    with opened(data) as source:
        source.page(0)

        def fail(*_: object) -> bytes:
            raise OSError(errno.EIO, "Input/output error")

        monkeypatch.setattr(SourceStream, "_read_at", fail)
        with pytest.raises(OSError, match="Input/output"):
            source.page(1)
        monkeypatch.undo()


DICTIONARY = "/Type/XObject/Subtype/Image/Width 64/Height 64/BitsPerComponent 8/ColorSpace/DeviceGray"
SMALL = Image.new("L", (64, 64), 120)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("DCTDecode", drawn.saved(SMALL, "JPEG")),
        ("JPXDecode", drawn.saved(SMALL, "JPEG2000")),
    ],
)
def test_an_image_that_cannot_be_decoded_is_no_blank_page(name: str, data: bytes) -> None:
    """pdfium leaves it out without a word. Of damaged lossless data it shows what there is."""
    sound = bombs.page(
        b"9 0 0 9 0 0 cm /I Do", "/XObject<</I 5 0 R>>", drawn.pdf_stream(f"{DICTIONARY}/Filter/{name}", data)
    )
    assert image_of(sound).pixels.getextrema() != (255, 255)
    with fails_as("unreadable_file"):
        image_of(sound.replace(data, b"\xff" * len(data)))


def beside_text(
    image: bytes,
    *,
    text: str = "Received 12 March",
    share: float = 1.0,
    size: int = 64,
    points: float = 3,
    hidden: bool = False,
) -> bytes:
    """A page with text and an image that covers this part of it."""
    fields = DICTIONARY.replace("64", str(size))
    content = f"q 612 0 0 {792 * share} 0 0 cm /I Do Q {_in_lines(text, points, hidden)}".encode()
    resources = "/XObject<</I 5 0 R>>/Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"
    return bombs.page(content, resources, drawn.pdf_stream(f"{fields}/Filter/DCTDecode", image))


def _in_lines(text: str, points: float, hidden: bool) -> str:
    return "".join(
        drawn.shown(line, y=700 - 2 * points * number, points=points, hidden=hidden)
        for number, line in enumerate(textwrap.wrap(text, 100) or [text])
    )


JPEG = drawn.saved(Image.effect_noise((64, 64), 50), "JPEG")
DAMAGED = b"\xff" * len(JPEG)
CUT = JPEG[: len(JPEG) // 2]
MUCH = "The agreement between the landlord and the tenant was signed in Winchester on the fourth of April. " * 3


@pytest.mark.parametrize(
    ("image", "size", "code"),
    [(DAMAGED, 64, "unreadable_file"), (CUT, 64, "unreadable_file"), (JPEG, 30_000, "too_large")],
)
@pytest.mark.parametrize("text", ["Received 12 March", MUCH])
def test_a_large_image_that_is_not_shown_is_missed(image: bytes, size: int, code: str, text: str) -> None:
    data = beside_text(image, text=text, size=size, share=0.3)
    with opened(data) as source:
        page = source.page(0)
        layer, lost = page.text_layer(), page.image(300).lost
        assert layer is not None
        assert lost is not None
        beside = layer.lost_image(lambda _: False)
        assert beside is not None
        assert (beside.code, lost.code) == (code, code)
        assert layer.lost_image(lambda _: True) is None, "its text is known"


@pytest.mark.parametrize("mode", ["skip", "redo", "force"])
@pytest.mark.parametrize("text", ["Received 12 March", MUCH])
def test_a_page_that_lacks_an_image_keeps_its_text_and_fails(engine: TesseractEngine, mode: Mode, text: str) -> None:
    with opened(beside_text(DAMAGED, text=text, share=0.3, points=7)) as source:
        found = read_page(source.page(0), engine, PageOptions(("eng",), mode=mode))
    assert (found.state, found.failure_code) == ("failed", "unreadable_file")
    assert word_recall(text, found.text) == 1.0
    assert found.words == len(text.split())


def test_a_page_that_is_nothing_but_an_image_that_is_lost_has_no_text(engine: TesseractEngine) -> None:
    modes: tuple[Mode, ...] = ("skip", "redo", "force")
    for mode in modes:
        with fails_as("unreadable_file"), opened(beside_text(DAMAGED, text=" ")) as source:
            read_page(source.page(0), engine, PageOptions(("eng",), mode=mode))


def test_what_an_ocr_program_wrote_of_an_image_is_kept_without_it(engine: TesseractEngine) -> None:
    for text, state in ((MUCH, "text"), ("Received on the 12th of March 2004", "failed")):
        with opened(beside_text(DAMAGED, text=text, hidden=True)) as source:
            found = read_page(source.page(0), engine, PageOptions(("eng",)))
        assert (found.state, found.text.split(), found.engine_calls) == (state, text.split(), 0)


TWO_PAGES = drawn.pdf(drawn.PdfPage(drawn.shown("First page")), drawn.PdfPage(drawn.shown("Second page")))


@pytest.mark.parametrize("keyword", [b"xref\n", b"trailer\n"])
def test_a_pdf_without_its_end_is_read(keyword: bytes) -> None:
    """Its catalog is there, but nothing says which object that is."""
    cut = TWO_PAGES[: TWO_PAGES.index(keyword)]
    layers = [layer_of(cut, index) for index in range(2)]
    assert [layer and layer.text for layer in layers] == ["First page", "Second page"]


def test_a_page_that_was_cut_off_is_not_blank() -> None:
    """Of the last one the contents are missing, its dictionary is not."""
    whole = drawn.pdf_file(
        [
            b"<</Type/Catalog/Pages 2 0 R>>",
            b"<</Type/Pages/Count 2/Kids[3 0 R 4 0 R]>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 5 0 R>>",
            b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 300]/Contents 6 0 R>>",
            drawn.pdf_stream("", b"0 0 100 100 re f"),
            drawn.pdf_stream("", b"0 0 200 200 re f"),
        ]
    )
    cut = whole[: whole.index(b"6 0 obj")]
    assert image_of(cut).pixels.getextrema() == (0, 255)
    with fails_as("unreadable_file"):
        image_of(cut, 1)


def test_an_encrypted_pdf_without_its_end_is_not_guessed_at() -> None:
    data = encrypted_pdf("Good morning")
    with fails_as("unreadable_file"):
        layer_of(data[: data.index(b"xref\n")])


@pytest.mark.parametrize(("bad", "is_lost"), [(6, True), (4, False)])
def test_strips_of_a_scan_are_missed_together(bad: int, is_lost: bool) -> None:
    """Each covers a twentieth of the page."""
    content = drawn.shown("Received 12 March", points=3)
    names, strips = "", []
    for number in range(20):
        content += drawn.placed(0, 39.6 * number, 612, 39.6, name=f"S{number}")
        names += f"/S{number} {5 + number} 0 R"
        data = DAMAGED if number < bad else JPEG
        strips.append(drawn.pdf_stream(f"{DICTIONARY}/Filter/DCTDecode", data))
    resources = f"/XObject<<{names}>>/Font<</F1<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>"
    lost = image_of(bombs.page(content.encode(), resources, *strips)).lost
    assert (lost is not None) == is_lost


def test_a_good_image_without_the_mark_of_its_end_is_sound() -> None:
    data = beside_text(JPEG.removesuffix(b"\xff\xd9"))
    assert layer_of(data) is not None
    image_of(data)


@pytest.mark.parametrize("text", [MUCH, "Received 12 March"])
def test_a_small_image_costs_the_page_nothing(text: str) -> None:
    data = beside_text(DAMAGED, text=text, share=0.2)
    with opened(data) as source:
        page = source.page(0)
        layer = page.text_layer()
        assert layer is not None
        assert layer.text.split() == text.split()
        assert layer.lost_image(lambda _: False) is None
        assert page.image(300).lost is None


@pytest.mark.parametrize("xfa", ["", "/XFA 7 0 R"])
def test_the_fields_of_a_form_are_drawn(xfa: str, caplog: pytest.LogCaptureFixture) -> None:
    """Also those of a static XFA form, which it holds a second time."""
    page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 300 100]/Annots[4 0 R]>>"
    field = b"<</Type/Annot/Subtype/Widget/FT/Tx/T(name)/Rect[20 20 220 46]/F 4/AP<</N 5 0 R>>>>"
    value = drawn.pdf_stream(
        "/Type/XObject/Subtype/Form/BBox[0 0 200 26]/Resources<</Font<</F1 6 0 R>>>>",
        b"BT /F1 12 Tf 0 g 4 8 Td (Eleanor Whitfield) Tj ET",
    )
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"
    catalog = CATALOG % f"/AcroForm<</Fields[4 0 R]{xfa}>>".encode()
    data = drawn.pdf_file([catalog, PAGES, page, field, value, font, drawn.pdf_stream("", b"<x/>")])
    assert image_of(data).pixels.getextrema() != (255, 255)
    assert flags_of(data) == ()
    assert not caplog.records


def test_a_white_image_is_a_blank_page() -> None:
    white = drawn.PdfPage(drawn.placed(0, 0, 612, 792), image=Image.new("L", (64, 64), 255))
    assert image_of(drawn.pdf(white)).pixels.getextrema() == (255, 255)
