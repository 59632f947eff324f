"""Recognition that says where the words stand, and how the page was turned for it."""

from __future__ import annotations

from collections.abc import Iterable

from PIL import Image

from batchproc.ocr.engine import Engine, Orientation, Recognised
from batchproc.ocr.layout import Layout, Turn, Word


class WithLayout:
    """An engine that always says where the words stand."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.name = engine.name
        self.version = engine.version

    def languages(self) -> set[str]:
        return self._engine.languages()

    def loading_order(self, languages: tuple[str, ...]) -> tuple[str, ...]:
        return self._engine.loading_order(languages)

    def data_hash_of(self, languages: tuple[str, ...]) -> str:
        return self._engine.data_hash_of(languages)

    def recognise(
        self,
        image: Image.Image,
        *,
        dpi: int,
        languages: tuple[str, ...],
        layout: bool = False,  # noqa: ARG002  # always
    ) -> Recognised:
        return self._engine.recognise(image, dpi=dpi, languages=languages, layout=True)

    def orientation(self, image: Image.Image, dpi: int) -> Orientation | None:
        return self._engine.orientation(image, dpi)

    def close(self) -> None:
        self._engine.close()


def picture_turn(found: Recognised, layout: Layout, size: tuple[int, int]) -> Turn:
    """The turn from a picture of this size to that which the engine saw in the end."""
    return Turn(found.rotation - layout.rotation + found.skew, size, layout.size)


def mean_confidence(words: Iterable[Word]) -> float:
    """0 without words."""
    found = [word.confidence for word in words if word.confidence is not None]
    return sum(found) / len(found) if found else 0.0
