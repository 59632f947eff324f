"""What a text recognition engine has to offer. Another than Tesseract fits behind this."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from PIL import Image

from batchproc.ocr.errors import OcrFailure
from batchproc.ocr.layout import Layout


@dataclass(frozen=True)
class Recognised:
    """The outcome of one recognition.

    Attributes:
        text: lines end in line feeds, blocks are separated by an empty line.
        confidence: mean over the words, 0 to 100; None without words. Comparable only within one engine, version and
            data.
        words: words in `text`, separated by white space.
        rotation: degrees clockwise by which the page had to be turned to be upright; from an engine, by which it itself
            took the page to be turned, see `Orientation.degrees`.
        skew: degrees clockwise by which the page was straightened before it was read; 0 when it was not.
        languages: what it was recognised in; an engine leaves them out.
        engine_calls: recognitions that led here, those with a worse outcome too.
        layout: where the words of `text` stand; None unless it was asked for.
    """

    text: str
    confidence: float | None
    words: int
    rotation: int = 0
    skew: float = 0.0
    languages: tuple[str, ...] = ()
    engine_calls: int = 1
    layout: Layout | None = None


@dataclass(frozen=True)
class Orientation:
    """How a page lies.

    Attributes:
        degrees: turn clockwise by this to make the page upright: 0, 90, 180 or 270.
        confidence: 0 and up, by the engine's own measure.
    """

    degrees: int
    confidence: float


class Engine(Protocol):
    """An engine, loaded once and used for page after page, in one thread.

    Attributes:
        name: such as "tesseract".
        version: of the program, as in "5.5.4".
    """

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def languages(self) -> set[str]:
        """The languages that it has data for."""

    def loading_order(self, languages: tuple[str, ...]) -> tuple[str, ...]:
        """The languages in the order in which it tries them: what has the same order is read the same."""

    def data_hash_of(self, languages: tuple[str, ...]) -> str:
        """A hash of the data that recognition in these languages depends on, unchanged when others come and go.

        Raises:
            OcrFailure: `missing_language`.
        """

    def recognise(
        self, image: Image.Image, *, dpi: int, languages: tuple[str, ...], layout: bool = False
    ) -> Recognised:
        """The text of a page.

        Args:
            image: mode "L".
            dpi: its resolution.
            languages: at least one, the most likely first.
            layout: say also where the words stand, in pixels of `image`.

        Raises:
            OcrFailure: `missing_language` or `engine_failed`.
        """

    def orientation(self, image: Image.Image, dpi: int) -> Orientation | None:
        """How the page lies, judged by its letters; None with too few of them, or without data for it."""

    def close(self) -> None:
        """Frees what is loaded. May be called twice."""


def require_languages(engine: Engine, languages: Iterable[str]) -> None:
    """Checks before the first page what would fail every page.

    Raises:
        OcrFailure: `missing_language`.
    """
    missing = [language for language in languages if language not in engine.languages()]
    if missing:
        raise OcrFailure("missing_language", f"no language data for {named(missing)}")


def named(languages: Iterable[str]) -> str:
    """Languages as they may stand in a stored detail: whatever was asked for, cut to names."""
    return ", ".join("".join(filter(_in_a_name, language))[:40] or "?" for language in languages)


def _in_a_name(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character in "_/-")
