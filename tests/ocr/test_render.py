from __future__ import annotations

from PIL import Image

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.pages import TextLayer
from batchproc.ocr.text_layer import normalised_text
from tests.ocr import drawn
from tests.ocr.drawn import PdfPage, placed, shown
from tests.ocr.reading import fails_as, image_of, layer_of, opened

GREY_BLOCK = Image.new("L", (100, 100), 128)
FULL_PAGE = placed(0, 0, 612, 792)
PARAGRAPH = "".join(
    shown(f"line {number} of a page that has a good deal to say", y=700 - 20 * number) for number in range(9)
)


def layer(page: PdfPage) -> TextLayer:
    found = layer_of(drawn.pdf(page))
    assert found is not None
    return found


def test_pages_title_and_text() -> None:
    data = drawn.pdf(PdfPage(shown("First")), PdfPage(shown("Second") + shown("line", y=650)), title="Untitled")
    with opened(data) as source:
        assert (source.page_count, source.title, source.flags) == (2, "Untitled", ())
        layers = [source.page(index).text_layer() for index in range(2)]
    assert [found.text for found in layers if found] == ["First", "Second\nline"]
    with opened(drawn.pdf(PdfPage())) as source:
        assert source.title is None


def test_no_characters_are_no_layer() -> None:
    assert layer_of(drawn.pdf(PdfPage())) is None
    assert layer_of(drawn.pdf(PdfPage(shown("   ")))) is None


def test_the_text_is_clean() -> None:
    assert normalised_text("a\r\nb\rc\fd \x00e\ud800\n\n") == "a\nb\nc\nd e"
    broken = shown("it is hy-", y=700) + shown("phenated", y=686)
    assert layer(PdfPage(broken)).text == "it is hy-\nphenated"


def test_the_page_is_rendered_to_the_pixel() -> None:
    found = image_of(drawn.pdf(PdfPage(FULL_PAGE, image=GREY_BLOCK)))
    assert (found.pixels.size, found.pixels.mode, found.dpi) == ((2550, 3300), "L", 300)
    assert found.pixels.getextrema() == (128, 128)


def test_the_pages_own_rotation_is_honoured() -> None:
    corner = placed(0, 742, 50, 50)  # upper left of the sheet as it is written
    found = image_of(drawn.pdf(PdfPage(corner, image=Image.new("L", (9, 9), 0), extra="/Rotate 90")), dpi=72)
    assert found.pixels.size == (792, 612)
    assert (found.pixels.getpixel((780, 10)), found.pixels.getpixel((10, 10))) == (0, 255)


def test_an_absurd_page_is_too_large_and_others_of_its_document_are_read() -> None:
    absurd = PdfPage(size=(595, 2_147_483_648))
    with fails_as("too_large"), opened(drawn.pdf(absurd)):
        pass
    with opened(drawn.pdf(absurd, PdfPage(shown("Good")))) as source:
        with fails_as("too_large"):
            source.page(0).image(300)
        assert source.page(1).image(72).pixels.size == (612, 792)


def test_a_large_image_on_a_small_page_is_too_large() -> None:
    huge = "/Width 35000/Height 35000/ColorSpace/DeviceGray/BitsPerComponent 8"
    with fails_as("too_large"):
        image_of(drawn.pdf(PdfPage(FULL_PAGE, image=GREY_BLOCK, image_dictionary=huge)))


def test_too_many_pages_and_characters() -> None:
    with fails_as("too_large"), opened(drawn.pdf(PdfPage(), PdfPage()), bounds=Bounds(max_pages=1)):
        pass
    with fails_as("too_large"), opened(drawn.pdf(PdfPage(PARAGRAPH)), bounds=Bounds(max_page_characters=99)) as source:
        source.page(0).text_layer()


def test_a_page_that_is_gone_is_unreadable() -> None:
    data = drawn.pdf(PdfPage(shown("Good")), PdfPage()).replace(b"/Kids[5 0 R 7 0 R]", b"/Kids[5 0 R 1 0 R]")
    with opened(data) as source:
        assert source.page_count == 2
        assert source.page(0).text_layer() is not None
        with fails_as("unreadable_file"):
            source.page(1)
