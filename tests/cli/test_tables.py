"""Tables for a terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from batchproc.cli import output
from batchproc.cli.tables import laid_out, left_out

NAMES = ("document_id", "tenant", "status", "title", "code", "conf", "pages", "tags", "path")
RIGHT = (True, False, False, False, False, True, True, False, False)
ROWS = [
    [
        "4711",
        "stadtwerke",
        "failed",
        "A letter of some length, no doubt",
        "unreadable_file",
        "87.5",
        "12",
        "invoice, urgent",
        "/srv/archive/2026/11/scan-0001.pdf",
    ],
    ["7", "acme", "completed", "写真 and words", "-", "-", "1", "-", "/srv/b.png"],
]


def test_without_a_width_nothing_is_cut() -> None:
    text = "\n".join(laid_out(NAMES, ROWS, RIGHT, None))
    assert all(cell in text for row in ROWS for cell in row)


def test_on_a_narrow_terminal_ids_and_codes_stay_whole_and_paths_keep_their_end() -> None:
    for width in (80, 100, 120):
        lines = laid_out(NAMES, ROWS, RIGHT, width)
        assert max(map(cell_len, lines)) <= width
        assert lines[0].startswith("document_id")
        for cell in ("4711", "stadtwerke", "unreadable_file"):
            assert cell in lines[1]
        assert "title" in lines[0].split(), "it goes last"
        assert lines[1].endswith("-0001.pdf")
        shown = lines[0].split()
        assert left_out(NAMES, ROWS, width) == [name for name in NAMES if name not in shown]


def test_a_listing_of_documents_has_titles_and_confidences_on_80_columns() -> None:
    rows = [["7", "acme", "failed", "-", "unreadable_file", "-", "-", "-", "/srv/archive/scan-0001.pdf"], ROWS[1]]
    lines = laid_out(NAMES, rows, RIGHT, 80)
    assert max(map(cell_len, lines)) <= 80
    assert lines[0].split() == ["document_id", "tenant", "status", "title", "code", "pages", "path"]
    assert left_out(NAMES, rows, 80) == [], "in the others nothing stands"


def test_columns_that_say_something_are_not_left_out_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "screen_width", lambda: 80)
    output.table(NAMES, ROWS)
    shown = capsys.readouterr()
    assert shown.err == "not shown in 80 columns: conf, pages, tags; --json has all\n"
    output.table(NAMES[:3], [row[:3] for row in ROWS])
    assert capsys.readouterr().err == ""


def test_fields_are_broken_between_words_on_a_terminal_only(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = [("ocr", {"engine": "tesseract", "profile": {"dpi": 300, "mode": "skip", "orientation": True}}), ("n", 1)]
    output.fields(pairs)
    assert capsys.readouterr().out.count("\n") == 2
    monkeypatch.setattr(output, "screen_width", lambda: 40)
    output.fields(pairs)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 40
    assert len(lines) > 3
    assert all(line.startswith("     ") for line in lines[1:-1])
    assert "".join("".join(lines[:-1]).split()).endswith('"orientation":true}}')


def test_a_terminal_too_narrow_for_codes_gets_them_all_the_same() -> None:
    assert "unreadable_file" in laid_out(NAMES, ROWS, RIGHT, 20)[1]


def test_numbers_stand_right_and_no_line_ends_in_blanks() -> None:
    lines = laid_out(("n", "word"), [["5", "a"], ["12", "longer"]], (True, False), None)
    assert lines == [" n  word", " 5  a", "12  longer"]


def test_an_empty_table_is_its_header() -> None:
    assert laid_out(("a", "b"), [], (False, False), 80) == ["a  b"]
