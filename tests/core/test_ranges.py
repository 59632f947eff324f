"""Pages as ranges: all of them, each once, none larger than it may be, and all of about one size."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from batchproc.core.ranges import PageRange, balanced

PAGES = st.lists(st.integers(1, 10_000), unique=True, max_size=300).map(sorted)


@given(PAGES, st.integers(1, 60))
def test_every_page_is_in_one_range(pages: list[int], most: int) -> None:
    ranges = balanced(pages, most)
    assert [page for found in ranges for page in pages if page in found] == pages
    assert all(one.last < other.first for one, other in pairwise(ranges))


@given(PAGES, st.integers(1, 60))
def test_ranges_are_as_few_as_they_can_be_and_of_about_one_size(pages: list[int], most: int) -> None:
    sizes = [sum(page in found for page in pages) for found in balanced(pages, most)]
    assert len(sizes) == -(-len(pages) // most)
    assert max(sizes, default=0) <= most
    assert max(sizes, default=0) - min(sizes, default=0) <= 1


def test_a_range_tells_its_pages() -> None:
    assert str(PageRange(26, 50)) == "26-50"
    assert balanced(range(1, 27), 25) == [PageRange(1, 13), PageRange(14, 26)]
    assert [page in PageRange(2, 3) for page in (1, 2, 3, 4, "2")] == [False, True, True, False, False]
