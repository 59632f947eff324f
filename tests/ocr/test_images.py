from __future__ import annotations

import io
import struct
import warnings
import zlib
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageStat

from batchproc.ocr.bounds import Bounds
from batchproc.ocr.pages import PageImage
from batchproc.ocr.pixels import is_blank, to_grey
from batchproc.ocr.resolution import credible, squared, useful
from tests.ocr import drawn
from tests.ocr.reading import fails_as, image_of, opened

GREY = drawn.page()
LETTER = (2550, 3300)


def alike(left: Image.Image, right: Image.Image, tolerance: float = 2.0) -> bool:
    return left.size == right.size and ImageStat.Stat(ImageChops.difference(left, right)).mean[0] <= tolerance


def with_alpha() -> Image.Image:
    """Black text on nothing: transparent pixels hold black, too."""
    picture = Image.new("RGBA", GREY.size, (0, 0, 0, 0))
    picture.putalpha(ImageChops.invert(GREY))
    return picture


def deep(image: Image.Image, white: int) -> Image.Image:
    """16-bit grey whose white is this value."""
    return image.convert("I").point(lambda value: value * (white / 255) + 0.0).convert("I;16")


@pytest.mark.parametrize(
    ("image", "kind", "options"),
    [
        (GREY, "PNG", {}),
        (GREY.convert("1", dither=Image.Dither.NONE), "TIFF", {"compression": "group4"}),
        (GREY.convert("RGB"), "JPEG", {"quality": 95}),
        (GREY.convert("RGB").convert("CMYK"), "JPEG", {"quality": 95}),
        (GREY.convert("RGB").convert("CMYK"), "TIFF", {"compression": "tiff_lzw"}),
        (GREY.convert("RGB").quantize(16), "PNG", {}),
        (GREY.convert("P"), "GIF", {}),
        (with_alpha(), "PNG", {}),
        (with_alpha().convert("LA"), "PNG", {}),
        (GREY.convert("P"), "PNG", {"transparency": 255}),
        (deep(GREY, 65535), "PNG", {}),
        (deep(GREY, 65535), "TIFF", {}),
        (deep(GREY, 4095), "TIFF", {}),
        (GREY.convert("F"), "TIFF", {}),
        (GREY.convert("F").point(lambda value: value * (1 / 255) + 0.0), "TIFF", {}),
    ],
)
def test_whatever_the_pixels_the_page_is_grey_on_white(image: Image.Image, kind: str, options: dict[str, Any]) -> None:
    unscaled = 70 if kind == "GIF" else 300  # a GIF names no resolution
    found = image_of(drawn.saved(image, kind, dpi=(300, 300), **options), dpi=unscaled)
    assert found.pixels.mode == "L"
    assert alike(found.pixels, GREY, 4.0)


def test_sixteen_bits_that_count_from_white() -> None:
    negative = deep(ImageChops.invert(GREY), 65535)
    data = bytearray(drawn.saved(negative, "TIFF", dpi=(300, 300)))
    entry = data.index(struct.pack("<HHI", 262, 3, 1))  # PhotometricInterpretation, a SHORT
    struct.pack_into("<H", data, entry + 8, 0)  # WhiteIsZero
    assert alike(image_of(bytes(data)).pixels, GREY)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF"])
@pytest.mark.parametrize(("tag", "turn"), [(3, Image.Transpose.ROTATE_180), (6, Image.Transpose.ROTATE_90)])
def test_the_orientation_tag_is_honoured(kind: str, tag: int, turn: Image.Transpose) -> None:
    exif = Image.Exif()
    exif[274] = tag
    found = image_of(drawn.saved(GREY.transpose(turn), kind, exif=exif, dpi=(300, 300)))
    assert alike(found.pixels, GREY, 4.0)


@pytest.mark.parametrize("kind", ["TIFF", "GIF"])
def test_frames_are_pages_in_order(kind: str) -> None:
    frames = [drawn.page([f"Page {number}"]) for number in range(3)]
    data = drawn.saved(frames[0], kind, save_all=True, append_images=frames[1:])
    with opened(data) as source:
        assert source.page_count == 3
        for index in (2, 0, 1):
            assert alike(source.page(index).image(70).pixels, frames[index])
        with pytest.raises(IndexError):
            source.page(3)


def test_too_many_frames_are_refused() -> None:
    frames = [Image.new("L", (10, 10), shade) for shade in range(6)]
    data = drawn.saved(frames[0], "TIFF", save_all=True, append_images=frames[1:])
    with fails_as("too_large"), opened(data, bounds=Bounds(max_pages=5)):
        pass


def test_a_tiff_whose_directories_go_round_ends() -> None:
    frames = [Image.new("L", (10, 10), shade) for shade in (0, 255)]
    data = bytearray(drawn.saved(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
    first = struct.unpack_from("<I", data, 4)[0]
    second_link = first
    for _ in range(2):  # to the end of the second directory
        position = second_link
        count = struct.unpack_from("<H", data, position)[0]
        second_link = position + 2 + 12 * count
        if struct.unpack_from("<I", data, second_link)[0]:
            second_link = struct.unpack_from("<I", data, second_link)[0]
    struct.pack_into("<I", data, second_link, first)
    with opened(bytes(data)) as source:
        assert source.page_count == 2


def test_after_a_damaged_directory_what_came_before_is_kept() -> None:
    frames = [drawn.page([f"Page {number}"]) for number in range(2)]
    data = bytearray(drawn.saved(frames[0], "TIFF", save_all=True, append_images=frames[1:]))
    first = struct.unpack_from("<I", data, 4)[0]
    link = first + 2 + 12 * struct.unpack_from("<H", data, first)[0]
    second = struct.unpack_from("<I", data, link)[0]
    with opened(bytes(data[: second + 1])) as source:
        assert source.page_count == 2
        assert not is_blank(source.page(0).image(300).pixels, 300)
        with fails_as("unreadable_file"):
            source.page(1).image(300)


def png_header(width: int, height: int) -> bytes:
    """A PNG that says how large it is, and has nothing else."""
    data = bytearray(drawn.saved(Image.new("L", (1, 1)), "PNG"))
    struct.pack_into(">II", data, 16, width, height)
    struct.pack_into(">I", data, 29, zlib.crc32(data[12:29]))
    return bytes(data)


@pytest.mark.parametrize(
    "data", [png_header(20_000, 20_000), b"GIF89a\xff\xff\xff\xff\x00\x00\x00" + b"," + b"\x00" * 10]
)
def test_a_bomb_is_refused_by_its_header(data: bytes) -> None:
    with warnings.catch_warnings(), fails_as("too_large"):
        warnings.simplefilter("error")
        with opened(data):
            pass


def test_pillows_own_limit_is_left_as_it_was() -> None:
    before = Image.MAX_IMAGE_PIXELS
    image_of(drawn.saved(GREY, "PNG"))
    assert before == Image.MAX_IMAGE_PIXELS


def test_one_large_frame_fails_alone() -> None:
    frames = [Image.new("1", (3000, 3000)), Image.new("1", (100, 100))]
    data = drawn.saved(frames[0], "TIFF", save_all=True, append_images=frames[1:], compression="group4")
    with opened(data, bounds=Bounds(max_pixels=1_000_000)) as source:
        with fails_as("too_large"):
            source.page(0).image(300)
        assert source.page(1).image(300).pixels.size[0] >= 100


def test_half_a_jpeg_is_unreadable() -> None:
    data = drawn.saved(GREY, "JPEG")
    with fails_as("unreadable_file"):
        image_of(data[: len(data) // 2])


def test_damaged_fax_data_prints_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    data = bytearray(drawn.saved(GREY.convert("1"), "TIFF", compression="group4"))
    data[100:140] = b"\x55" * 40
    with opened(bytes(data)) as source:
        source.page(0).image(300)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("size", "stated", "expected"),
    [
        (LETTER, (300, 300), 300),
        (LETTER, None, 308),  # as if A4: the larger of 2550 / 8.27 and 3300 / 11.69
        (LETTER, (1, 1), 308),
        (LETTER, (72, 72), 308),  # a camera's 72 would make a sheet of 46 inches
        ((1190, 842), (72, 72), 72),
        ((9933, 14043), (300, 300), 300),  # A0
        ((517, 147), None, 70),
        ((30_000, 30_000), None, 600),
    ],
)
def test_an_absurd_resolution_is_estimated(
    size: tuple[int, int], stated: tuple[float, float] | None, expected: int
) -> None:
    assert round(credible(size, stated)[0]) == expected


def test_a_fax_gets_square_pixels() -> None:
    image, dpi = squared(Image.new("L", (1728, 1100), 255), (204, 98))
    assert (image.width, dpi) == (1728, 204)
    assert image.height == pytest.approx(1100 * 204 / 98, abs=1)


@pytest.mark.parametrize(
    ("size", "dpi", "expected"),
    [
        ((2480, 3508), 300, (2480, 3508, 300)),
        ((4960, 7016), 600, (2480, 3508, 300)),
        ((595, 842), 72, (1653, 2339, 200)),
        ((1654, 2339), 200, (1654, 2339, 200)),
    ],
)
def test_fine_scans_are_reduced_and_coarse_ones_enlarged(
    size: tuple[int, int], dpi: int, expected: tuple[int, int, int]
) -> None:
    found: PageImage = useful(Image.new("L", size), dpi, wanted=300, max_pixels=10**8)
    assert (*found.pixels.size, found.dpi) == expected


def noise(sigma: float) -> Image.Image:
    return ImageChops.add(Image.new("L", LETTER, 235), Image.effect_noise(LETTER, sigma), 1, -128)


def specks() -> Image.Image:
    paper = Image.new("L", LETTER, 250)
    for place in range(300, 2500, 700):
        paper.paste(40, (place, place, place + 3, place + 3))
    return paper


@pytest.mark.parametrize("image", [Image.new("L", LETTER, 255), Image.new("L", LETTER, 0), noise(10), specks()])
def test_paper_is_blank(image: Image.Image) -> None:
    assert is_blank(image, 300)


@pytest.mark.parametrize("shade", [0, 200])
def test_a_lone_page_number_is_not_blank(shade: int) -> None:
    paper = noise(5)
    number = drawn.page(["7"], size=(200, 200), height=42)  # ten points
    paper.paste(shade, (1200, 3000), ImageChops.invert(number))
    assert not is_blank(paper, 300)


def test_bytes_in_memory_read_like_a_file() -> None:
    file = io.BytesIO(drawn.saved(GREY, "PNG"))
    assert alike(image_of(file.getvalue(), dpi=70).pixels, to_grey(GREY))
