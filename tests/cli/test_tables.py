"""Tables for a terminal."""

from __future__ import annotations

from rich.cells import cell_len

from batchproc.cli.tables import laid_out

NAMES = ("document_id", "tenant", "status", "failure_code", "page_count", "conf", "title", "tags", "path")
RIGHT = (True, False, False, False, True, True, False, False, False)
ROWS = [
    [
        "4711",
        "stadtwerke",
        "failed",
        "unreadable_file",
        "12",
        "87.5",
        "A letter of some length, no doubt",
        "invoice, urgent",
        "/srv/archive/2026/11/scan-0001.pdf",
    ],
    ["7", "acme", "completed", "-", "1", "-", "写真 and words", "-", "/srv/b.png"],
]


def test_without_a_width_nothing_is_cut() -> None:
    text = "\n".join(laid_out(NAMES, ROWS, RIGHT, None))
    assert all(cell in text for row in ROWS for cell in row)


def test_on_a_narrow_terminal_ids_and_codes_stay_whole_and_paths_keep_their_end() -> None:
    for width in (80, 100, 120):
        lines = laid_out(NAMES, ROWS, RIGHT, width)
        assert max(map(cell_len, lines)) <= width
        assert lines[0].startswith("document_id")
        for cell in ("4711", "stadtwerke", "unreadable_file", "87.5"):
            assert cell in lines[1]
        assert ("title" in lines[0].split()) == (width > 80)
        assert lines[1].endswith("-0001.pdf")


def test_a_listing_of_documents_has_titles_and_confidences_on_80_columns() -> None:
    rows = [["7", "acme", "failed", "unreadable_file", "-", "-", "-", "-", "/srv/archive/scan-0001.pdf"], ROWS[1]]
    lines = laid_out(NAMES, rows, RIGHT, 80)
    assert max(map(cell_len, lines)) <= 80
    assert lines[0].split() == ["document_id", "tenant", "status", "failure_code", "conf", "title", "path"]


def test_a_terminal_too_narrow_for_codes_gets_them_all_the_same() -> None:
    assert "unreadable_file" in laid_out(NAMES, ROWS, RIGHT, 20)[1]


def test_numbers_stand_right_and_no_line_ends_in_blanks() -> None:
    lines = laid_out(("n", "word"), [["5", "a"], ["12", "longer"]], (True, False), None)
    assert lines == [" n  word", " 5  a", "12  longer"]


def test_an_empty_table_is_its_header() -> None:
    assert laid_out(("a", "b"), [], (False, False), 80) == ["a  b"]
