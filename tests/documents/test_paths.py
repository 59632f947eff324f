"""Paths as text, and back."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from batchproc.documents.paths import display_path, path_from_text, terminal_path


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"/a/scan.tif", "/a/scan.tif"),
        ("/a/Rechnung März.pdf".encode(), "/a/Rechnung März.pdf"),
        (b"/a/\xff\xfe.pdf", r"/a/\xff\xfe.pdf"),
        (b"/a/back\\slash", "/a/back\\slash"),
        (rb"/a/\xff literally", r"/a/\x5cxff literally"),
        (b"/a/\xed\xa0\x80", r"/a/\xed\xa0\x80"),
        (b"/a/new\nline", "/a/new\nline"),
    ],
)
def test_display(path: bytes, shown: str) -> None:
    assert display_path(path) == shown


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (b"/a/new\nline", r"/a/new\x0aline"),
        (b"/a/\x1b[31mred", r"/a/\x1b[31mred"),
        ("/a/gpj.\u202eexe".encode(), r"/a/gpj.\xe2\x80\xaeexe"),
        ("/a/ä".encode(), "/a/ä"),
    ],
)
def test_nothing_shown_on_a_terminal_controls_it(path: bytes, shown: str) -> None:
    assert terminal_path(path) == shown


# Few distinct bytes, so that things that look like escapes come up often.
_TRICKY = st.lists(st.sampled_from([b"\\", b"x", b"5", b"c", b"f", b"\xff", b"\n", "ä".encode()])).map(b"".join)


@given(st.binary() | _TRICKY)
def test_what_is_shown_names_the_path_exactly(path: bytes) -> None:
    assert path_from_text(display_path(path)) == path
    assert path_from_text(terminal_path(path)) == path
    display_path(path).encode()


def test_a_lone_surrogate_is_no_path() -> None:
    with pytest.raises(ValueError, match="surrogates not allowed"):
        path_from_text("\udcff")
