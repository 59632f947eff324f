from __future__ import annotations

import io
import struct
import warnings
import zlib
from typing import Any

import pytest
from PIL import Image, ImageChops, ImageFilter

from batchproc.ocr import heif
from batchproc.ocr.blank import is_blank
from batchproc.ocr.bounds import Bounds
from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.pixels import to_grey
from tests.ocr import drawn, odd_images
from tests.ocr.reading import alike, fails_as, image_of, opened

GREY = drawn.page()
LETTER = (2550, 3300)


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
        (GREY.convert("1", dither=Image.Dither.NONE), "TIFF", {"compression": "group3"}),
        (GREY.convert("RGB"), "TIFF", {"compression": "jpeg", "quality": 95}),
        (GREY.convert("RGB").convert("YCbCr"), "TIFF", {"compression": "jpeg", "quality": 95}),
        (GREY, "TIFF", {"compression": "packbits"}),
        (GREY.convert("RGB"), "TIFF", {"compression": "tiff_adobe_deflate"}),
        (with_alpha(), "TIFF", {}),
        (GREY.convert("1", dither=Image.Dither.NONE), "PNG", {}),
        (GREY.convert("RGB"), "WEBP", {"quality": 95}),
        (with_alpha(), "WEBP", {"lossless": True}),
        (GREY, "JPEG2000", {}),
        (GREY, "JPEG2000", {"no_jp2": True}),
        (GREY.convert("RGB"), "JPEG2000", {}),
        (with_alpha(), "JPEG2000", {}),
        (deep(GREY, 65535), "JPEG2000", {}),
        (GREY, "BMP", {}),
        (GREY.convert("RGB"), "BMP", {}),
        (GREY.convert("1", dither=Image.Dither.NONE), "BMP", {}),
        (GREY.convert("RGB").quantize(16), "BMP", {}),
    ],
)
def test_whatever_the_pixels_the_page_is_grey_on_white(image: Image.Image, kind: str, options: dict[str, Any]) -> None:
    unscaled = 70 if kind in ("GIF", "WEBP", "JPEG2000") else 300  # these name no resolution
    found = image_of(drawn.saved(image, kind, dpi=(300, 300), **options), dpi=unscaled)
    assert found.pixels.mode == "L"
    assert alike(found.pixels, GREY, 4.0)


def test_white_on_nothing_is_meant_for_something_dark() -> None:
    white = Image.new("RGBA", GREY.size, (255, 255, 255, 0))
    white.putalpha(ImageChops.invert(GREY))
    assert alike(image_of(drawn.saved(white, "PNG", dpi=(300, 300))).pixels, GREY)


def test_a_jpeg_without_the_mark_of_its_end_is_whole() -> None:
    data = drawn.saved(GREY, "JPEG", dpi=(300, 300), quality=95)
    assert alike(image_of(data.removesuffix(b"\xff\xd9")).pixels, GREY)
    with fails_as("unreadable_file"):
        image_of(data[: len(data) // 2])


def two_shades(level: int) -> bytes:
    """Paper is black and declared transparent, ink is grey."""
    return bytes(2) if level > 127 else b"\x10\x10"


@pytest.mark.parametrize(
    "data",
    [
        odd_images.png(GREY.size, 16, 0, odd_images.rows(GREY, lambda v: bytes([v, v]))),
        odd_images.png(GREY.size, 16, 2, odd_images.rows(GREY, lambda v: bytes([v] * 6))),
        odd_images.png(GREY.size, 16, 4, odd_images.rows(GREY, lambda v: bytes([0, 0, 255 - v, 255 - v]))),
        odd_images.png(GREY.size, 16, 6, odd_images.rows(GREY, lambda v: bytes([0] * 6 + [255 - v] * 2))),
        odd_images.png(GREY.size, 8, 0, odd_images.interlaced_rows(GREY), interlaced=True),
        odd_images.png(GREY.size, 8, 3, odd_images.rows(GREY, lambda v: bytes([v])), *odd_images.palette_in_alpha()),
    ],
    ids=["grey", "colour", "grey and alpha", "colour and alpha", "interlaced", "alpha in the palette"],
)
def test_pngs_of_every_kind(data: bytes) -> None:
    assert alike(image_of(data).pixels, GREY)


@pytest.mark.parametrize("depth", [8, 16])
def test_a_grey_level_that_is_declared_transparent_is_paper(depth: int) -> None:
    key = odd_images.chunk(b"tRNS", bytes(2))
    rows = odd_images.rows(GREY, lambda level: two_shades(level)[: depth // 8])
    found = image_of(odd_images.png(GREY.size, depth, 0, rows, key)).pixels
    assert alike(found.point(lambda level: 255 if level > 127 else 0), GREY, 4.0)


def test_ink_without_adobes_mark_is_not_turned() -> None:
    """Pillow takes every CMYK JPEG for one of Adobe's, which are negatives."""
    cmyk = GREY.convert("RGB").convert("CMYK")
    marked = drawn.saved(ImageChops.invert(cmyk), "JPEG", quality=95, dpi=(300, 300))
    at = marked.index(b"\xff\xee")
    length = struct.unpack_from(">H", marked, at + 2)[0]
    assert alike(image_of(marked[:at] + marked[at + 2 + length :]).pixels, GREY)


TURNS = {
    1: None,
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "TIFF", "WEBP"])
@pytest.mark.parametrize("tag", TURNS)
def test_the_orientation_tag_is_honoured(kind: str, tag: int) -> None:
    turn = TURNS[tag]
    exif = Image.Exif()
    exif[274] = tag
    stored = GREY if turn is None else GREY.transpose(turn)
    data = drawn.saved(stored, kind, exif=exif, dpi=(300, 300), quality=95)
    assert alike(image_of(data, dpi=70 if kind == "WEBP" else 300).pixels, GREY, 4.0)


def heic(*frames: Image.Image) -> bytes:
    pytest.importorskip("pillow_heif").register_heif_opener()
    return drawn.saved(frames[0], "HEIF", quality=95, save_all=True, append_images=frames[1:])


def test_heic_is_read_with_its_extra() -> None:
    frames = [drawn.page([f"Page {number}"]).convert("RGB") for number in range(2)]
    with opened(heic(*frames)) as source:
        assert (source.media_type, source.page_count) == ("image/heic", 2)
        for index in (1, 0, 1):
            assert alike(source.page(index).image(70).pixels, frames[index].convert("L"))
    picture = with_alpha()
    assert alike(image_of(heic(picture), dpi=70).pixels, GREY)


def test_without_its_extra_heic_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    data = heic(GREY.convert("RGB"))
    monkeypatch.setattr(heif, "_taught", lambda: False)
    with pytest.raises(OcrFailure, match=r"batchproc\[heic\]") as caught, opened(data):
        pass
    assert caught.value.code == "unsupported_type"


@pytest.mark.parametrize("kind", ["TIFF", "GIF", "PNG", "WEBP"])
def test_frames_are_pages_in_order(kind: str) -> None:
    frames = [drawn.page([f"Page {number}"]) for number in range(3)]
    options = {"lossless": True} if kind == "WEBP" else {}
    data = drawn.saved(frames[0], kind, save_all=True, append_images=frames[1:], **options)
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


def three_pages() -> tuple[bytearray, list[int]]:
    """A TIFF, and where its directories are."""
    frames = [drawn.page([f"Page {number}"]) for number in range(3)]
    data = bytearray(drawn.saved(frames[0], "TIFF", save_all=True, append_images=frames[1:], software="x" * 40))
    places = [struct.unpack_from("<I", data, 4)[0]]
    while link := struct.unpack_from("<I", data, places[-1] + 2 + 12 * fields_at(data, places[-1]))[0]:
        places.append(link)
    return data, places


def fields_at(data: bytes | bytearray, place: int) -> int:
    count: int = struct.unpack_from("<H", data, place)[0]
    return count


@pytest.mark.parametrize("count", [0, 500, 0xFFFF])
def test_a_damaged_count_of_fields_is_a_failure_not_another_page(count: int) -> None:
    data, places = three_pages()
    struct.pack_into("<H", data, places[1], count)
    with opened(bytes(data)) as source:
        assert source.page_count == 2
        source.page(0).image(300)
        for _ in range(2):
            with fails_as("unreadable_file"):
                source.page(1).image(300)


def test_pages_behind_a_damaged_field_are_missed() -> None:
    """Pillow takes the second directory for the last, for the name of its software lies beyond the end of the file."""
    data, places = three_pages()
    fields = range(places[1] + 2, places[1] + 2 + 12 * fields_at(data, places[1]), 12)
    software = next(at for at in fields if struct.unpack_from("<H", data, at)[0] == 305)
    struct.pack_into("<I", data, software + 8, len(data) - 1)
    with opened(bytes(data)) as source, fails_as("unreadable_file"):
        source.page(source.page_count - 1).image(300)


def test_a_last_directory_without_a_link_is_sound() -> None:
    data, places = three_pages()
    if len(data) > places[2] + 6 + 12 * fields_at(data, places[2]):  # where it is not at the end, it is put there
        directory = data[places[2] : places[2] + 2 + 12 * fields_at(data, places[2])]
        struct.pack_into("<I", data, places[1] + 2 + 12 * fields_at(data, places[1]), len(data))
        data += directory
    with opened(bytes(data)) as source:
        assert source.page_count == 3
        for index in range(3):
            source.page(index).image(300)


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


def test_a_page_full_of_bold_print_is_not_blank() -> None:
    """Most of its pixels are near to ink, which is no grain of the paper."""
    line = drawn.page(["BOLD PRINT WITHOUT ANY GAP"], size=(900, 200))
    bold = line.crop(ImageChops.invert(line).getbbox()).filter(ImageFilter.MinFilter(3))
    paper = Image.new("L", LETTER, 255)
    for top in range(0, LETTER[1], bold.height):
        for left in range(0, LETTER[0], bold.width):
            paper.paste(bold, (left, top))
    assert not is_blank(paper, 300)


def test_bytes_in_memory_read_like_a_file() -> None:
    file = io.BytesIO(drawn.saved(GREY, "PNG"))
    assert alike(image_of(file.getvalue(), dpi=70).pixels, to_grey(GREY))
