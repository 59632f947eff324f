"""From the points of a PDF page as it is written to those of the page as it is shown."""

from __future__ import annotations

from typing import Any, NamedTuple

from batchproc.ocr.layout import Box


class Shown(NamedTuple):
    """The part of a page that is shown, and how.

    Attributes:
        left, bottom, right, top: what is shown, in the page's own points, from its lower left.
        rotation: clockwise, by which it is shown turned: 0, 90, 180 or 270.
        width, height: as it is shown, in points.
    """

    left: float
    bottom: float
    right: float
    top: float
    rotation: int
    width: float
    height: float

    @classmethod
    def of(cls, page: Any) -> Shown:
        """Of pypdfium2's page."""
        left, bottom, right, top = page.get_bbox()
        width, height = page.get_size()
        return cls(left, bottom, right, top, page.get_rotation(), width, height)

    def box(self, left: float, bottom: float, right: float, top: float) -> Box:
        """A rectangle of the page's own points in shown ones, from the upper left."""
        across, down = self.right - self.left or 1.0, self.top - self.bottom or 1.0
        from_left, to_left = (left - self.left) / across, (right - self.left) / across
        from_top, to_top = (self.top - top) / down, (self.top - bottom) / down
        if self.rotation == 90:
            from_left, from_top, to_left, to_top = 1 - to_top, from_left, 1 - from_top, to_left
        elif self.rotation == 180:
            from_left, from_top, to_left, to_top = 1 - to_left, 1 - to_top, 1 - from_left, 1 - from_top
        elif self.rotation == 270:
            from_left, from_top, to_left, to_top = from_top, 1 - to_left, to_top, 1 - from_left
        return Box(from_left * self.width, from_top * self.height, to_left * self.width, to_top * self.height)

    def holds(self, box: Box) -> bool:
        """Whether the middle of a shown box is on the page."""
        x, y = box.centre
        return 0 <= x <= self.width and 0 <= y <= self.height
