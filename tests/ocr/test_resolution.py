from __future__ import annotations

import math
import struct

import pytest
from PIL import Image

from batchproc.ocr.pages import PageImage
from batchproc.ocr.resolution import Resolution, credible, squared, useful
from batchproc.ocr.stated_resolution import Stated
from tests.ocr import drawn, odd_images
from tests.ocr.reading import image_of

LETTER = (2550, 3300)
NAN = math.nan
CAMERA = (3024, 4032)


@pytest.mark.parametrize(
    ("size", "dpi", "expected", "estimated"),
    [
        (LETTER, (300, 300), 300, False),
        (LETTER, None, 308, True),  # as if A4: the larger of 2550 / 8.27 and 3300 / 11.69
        (LETTER, (1, 1), 308, True),
        (LETTER, (0, 0), 308, True),
        (LETTER, (NAN, NAN), 308, True),
        (LETTER, (math.inf, 300), 308, True),
        (LETTER, (-300, -300), 308, True),
        (LETTER, (72, 72), 308, True),  # a camera's 72 would make a sheet of 46 inches
        (CAMERA, (72, 72), 366, True),
        (CAMERA, (96, 96), 366, True),
        ((1190, 842), (72, 72), 72, False),
        ((9933, 14043), (300, 300), 300, False),  # A0
        (LETTER, (30_000, 30_000), 308, True),
        ((517, 147), None, 70, True),
        ((30_000, 30_000), None, 600, True),
        ((1240, 1754), (1200, 1200), 150, True),  # a sheet of 1.5 inches
        ((2480, 3508), (2400, 2400), 300, True),
        ((1240, 1754), (600, 600), 600, False),
        ((600, 600), (1200, 1200), 1200, False),  # a stamp
        ((4016, 2540), (1200, 1200), 1200, False),  # a card
    ],
)
def test_an_absurd_resolution_is_estimated(
    size: tuple[int, int], dpi: tuple[float, float] | None, expected: int, estimated: bool
) -> None:
    found = credible(size, Stated(dpi))
    assert (round(found.horizontal), found.estimated) == (expected, estimated)


@pytest.mark.parametrize(
    ("aspect", "expected"),
    [
        ((204, 98), (204, 98)),
        ((2, 1), (196, 98)),
        ((1, 1), (154, 154)),
        ((1000, 1), (154, 154)),
        ((NAN, 1), (154, 154)),
    ],
)
def test_an_aspect_alone_gives_the_pixels_their_shape(aspect: tuple[float, float], expected: tuple[int, int]) -> None:
    found = credible((1686, 1146), Stated(aspect=aspect))
    assert (round(found.horizontal), round(found.vertical)) == pytest.approx(expected, rel=0.25)
    assert found.estimated
    assert found.horizontal / found.vertical == pytest.approx(expected[0] / expected[1], rel=0.01)


def test_a_fax_gets_square_pixels() -> None:
    found = squared(Image.new("L", (1728, 1100), 255), Resolution(204, 98))
    assert (found.pixels.width, found.dpi, found.dpi_estimated) == (1728, 204, False)
    assert found.pixels.height == pytest.approx(1100 * 204 / 98, abs=1)


@pytest.mark.parametrize(
    ("size", "dpi", "expected"),
    [
        ((2480, 3508), 300, (2480, 3508, 300)),
        ((4960, 7016), 600, (2480, 3508, 300)),
        ((595, 842), 72, (1653, 2339, 200)),
        ((1654, 2339), 200, (1654, 2339, 200)),
    ],
)
@pytest.mark.parametrize("estimated", [False, True])
def test_fine_scans_are_reduced_and_coarse_ones_enlarged(
    size: tuple[int, int], dpi: int, expected: tuple[int, int, int], estimated: bool
) -> None:
    found = useful(PageImage(Image.new("L", size), dpi, estimated), wanted=300, max_pixels=10**8)
    assert (*found.pixels.size, found.dpi) == expected
    assert found.dpi_estimated is estimated


A4_200 = Image.new("L", (1654, 2339), 255)
BARE_PNG = drawn.saved(A4_200, "PNG")
TIFF_TAGS = odd_images.tags((1654, 2339), 8)


def png_with(horizontal: int, vertical: int, unit: int) -> bytes:
    return BARE_PNG[:33] + odd_images.chunk(b"pHYs", struct.pack(">IIB", horizontal, vertical, unit)) + BARE_PNG[33:]


def jfif(unit: int, horizontal: int, vertical: int) -> bytes:
    data = bytearray(drawn.saved(A4_200, "JPEG", dpi=(200, 200)))
    struct.pack_into(">BHH", data, data.index(b"JFIF\0") + 7, unit, horizontal, vertical)
    return bytes(data)


def tiff_with(**changed: tuple[int, list[int]] | None) -> bytes:
    tags = dict(TIFF_TAGS) | {int(name[1:]): value for name, value in changed.items() if value}
    for name in [name for name, value in changed.items() if value is None]:
        del tags[int(name[1:])]
    return odd_images.tiff(tags, [A4_200.tobytes()])


def exif_png(horizontal: float, unit: int) -> bytes:
    exif = Image.Exif()
    exif[282], exif[283], exif[296] = horizontal, horizontal, unit
    return drawn.saved(A4_200, "WEBP", exif=exif, lossless=True)


SHORT, RATIONAL = odd_images.SHORT, odd_images.RATIONAL


@pytest.mark.parametrize(
    ("data", "dpi", "estimated"),
    [
        pytest.param(BARE_PNG, 200, True, id="PNG without pHYs"),
        pytest.param(png_with(7874, 7874, 1), 200, False, id="PNG"),
        pytest.param(png_with(0, 0, 1), 200, True, id="PNG zero"),
        pytest.param(png_with(2**31, 2**31, 1), 200, True, id="PNG absurd"),
        pytest.param(png_with(1, 1, 0), 200, True, id="PNG aspect only"),
        pytest.param(jfif(1, 200, 200), 200, False, id="JPEG"),
        pytest.param(jfif(2, 79, 79), 201, False, id="JPEG per cm"),
        pytest.param(jfif(0, 1, 1), 200, True, id="JPEG aspect only"),
        pytest.param(jfif(1, 1, 1), 200, True, id="JPEG one dpi"),
        pytest.param(jfif(1, 0, 0), 200, True, id="JPEG zero"),
        pytest.param(tiff_with(t282=(RATIONAL, [200, 1]), t283=(RATIONAL, [200, 1])), 200, False, id="TIFF"),
        pytest.param(
            tiff_with(t282=(RATIONAL, [79, 1]), t283=(RATIONAL, [79, 1]), t296=(SHORT, [3])),
            201,
            False,
            id="TIFF per cm",
        ),
        pytest.param(
            tiff_with(t282=(RATIONAL, [200, 1]), t283=(RATIONAL, [200, 1]), t296=(SHORT, [1])), 200, False, id="no unit"
        ),
        pytest.param(tiff_with(t282=(RATIONAL, [1, 0]), t283=(RATIONAL, [0, 0])), 200, True, id="TIFF NaN"),
        pytest.param(tiff_with(t282=None, t283=None, t296=None), 200, True, id="TIFF without"),
        pytest.param(exif_png(200, 2), 200, False, id="WebP with EXIF"),
        pytest.param(exif_png(79, 3), 201, False, id="WebP with EXIF per cm"),
        pytest.param(drawn.saved(A4_200, "BMP", dpi=(200, 200)), 200, False, id="BMP"),
        pytest.param(drawn.saved(A4_200, "GIF"), 200, True, id="GIF"),
    ],
)
def test_what_files_state(data: bytes, dpi: int, estimated: bool) -> None:
    found = image_of(data)
    assert (found.dpi, found.dpi_estimated) == (dpi, estimated)


def test_an_aspect_of_two_to_one_makes_the_picture_higher() -> None:
    found = image_of(png_with(2, 1, 0))
    assert found.pixels.height / found.pixels.width == pytest.approx(2 * 2339 / 1654, rel=0.01)


SCAN = drawn.page(size=(1700, 2200))


def scanned(width: float, height: float, *, content: str = "", extra: str = "") -> bytes:
    """A PDF page of so many points that is a letter scanned at 200 dpi."""
    placed = drawn.placed(0, 0, width, height)
    return drawn.pdf(drawn.PdfPage(placed + content, size=(width, height), image=SCAN, extra=extra))


@pytest.mark.parametrize(
    ("size", "dpi", "pixels", "estimated"),
    [
        ((612, 792), 300, (2550, 3300), False),
        ((1700, 2200), 300, (2481, 3210), True),  # a point for a pixel
        ((8500, 11_000), 300, (2481, 3210), True),  # five, which would be too large
        ((6.12, 7.92), 300, (2481, 3210), True),  # a hundredth of its size
        ((1200, 1553), 300, (2481, 3211), True),
    ],
)
def test_a_scanned_page_of_absurd_size_is_taken_for_a_sheet(
    size: tuple[float, float], dpi: int, pixels: tuple[int, int], estimated: bool
) -> None:
    found = image_of(scanned(*size))
    assert found.dpi_estimated is estimated
    assert found.pixels.size == pytest.approx(pixels, abs=12)
    assert found.dpi == dpi


def test_a_turned_page_of_absurd_size_is_taken_for_a_sheet() -> None:
    found = image_of(scanned(1700, 2200, extra="/Rotate 90"))
    assert found.pixels.size == pytest.approx((3210, 2481), abs=12)
    assert found.dpi_estimated


def test_a_large_page_that_is_no_scan_is_believed() -> None:
    found = image_of(scanned(1700, 2200, content=drawn.shown("A poster")))
    assert (found.pixels.size, found.dpi_estimated) == ((7083, 9167), False)
