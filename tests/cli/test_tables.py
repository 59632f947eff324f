"""Tables for a terminal."""

from __future__ import annotations

import pytest
from rich.cells import cell_len

from batchproc.cli.shared import output
from batchproc.cli.shared.tables import laid_out, left_out

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
    for width in (80, 100, 120, 134):
        lines = laid_out(NAMES, ROWS, RIGHT, width)
        assert max(map(cell_len, lines)) <= width
        assert lines[0].startswith("document_id")
        for cell in ("4711", "stadtwerke", "unreadable_file"):
            assert cell in lines[1]
        assert "title" in lines[0].split(), "it goes last"
        assert "path" not in lines[0].split() or lines[1].endswith("-0001.pdf")
        shown = lines[0].split()
        assert left_out(NAMES, ROWS, width) == [name for name in NAMES if name not in shown]


def test_a_listing_of_documents_has_titles_and_confidences_on_80_columns() -> None:
    failed = ["7", "acme", "failed", "-", "unreadable_file", "-", "-", "-", "/srv/archive/scan-0001.pdf"]
    read = ["8", "acme", "completed", "Miete Grünstraße", "-", "87.5", "12", "-", "/srv/archive/scan-0002.pdf"]
    lines = laid_out(NAMES, [failed, read], RIGHT, 80)
    assert max(map(cell_len, lines)) <= 80
    assert lines[0].split() == ["document_id", "tenant", "status", "title", "code", "conf", "pages"]
    assert "Miete Grünstraße" in lines[2]
    assert left_out(NAMES, [failed, read], 80) == ["path"], "in the others nothing stands"


@pytest.mark.parametrize("width", range(80, 200, 5))
def test_paths_are_cut_and_left_out_before_titles_and_what_was_read(width: int) -> None:
    title, path = "Nebenkostenabrechnung über Wärme und Wasser", "/srv/Grünstraße/" + "scan-0001-" * 6 + ".pdf"
    rows = [["1", "acme", "completed", title, "-", "95", "1", "accounting, invoice", path]]
    _, line = laid_out(NAMES, rows, RIGHT, width)
    missing = left_out(NAMES, rows, width)
    assert missing in ([], ["path"], ["tags", "path"])
    if not missing and title not in line:
        assert line.endswith(f"  …{path[-15:]}"), "it is as short as it may be"


def test_a_code_is_a_column_only_where_there_is_one() -> None:
    read = ["8", "acme", "completed", "Miete", "-", "87.5", "12", "rent", "/a"]
    assert "code" not in laid_out(NAMES, [read], RIGHT, 200)[0].split()
    assert "code" in laid_out(NAMES, [read, [*read[:4], "encrypted", *read[5:]]], RIGHT, 200)[0].split()
    assert "code" in laid_out(NAMES, [read], RIGHT, None)[0].split(), "a script finds the same columns each time"


def test_a_long_name_of_a_tenant_leaves_a_little_of_the_titles() -> None:
    rows = [["1", "stadtwerke-weimar-nord-2026", "failed", "Nebenkostenabrechnung", "unreadable_file", *ROWS[0][5:]]]
    lines = laid_out(NAMES, rows, RIGHT, 80)
    assert max(map(cell_len, lines)) <= 80
    assert lines[0].split() == ["document_id", "tenant", "status", "title", "code"]
    assert "Nebenkost" in lines[1]


def test_rather_than_that_a_line_does_not_fit_texts_are_cut_to_a_few_cells() -> None:
    names = ("campaign_id", "tenant", "command")
    rows = [["1", "stadtwerke", "reprocess --tenant stadtwerke"]]
    for width in (34, 40, 60):
        assert max(map(cell_len, laid_out(names, rows, [False] * 3, width))) <= width


def test_what_goes_first_comes_back_where_there_is_room_for_it() -> None:
    names = ("job_id", "pages", "created_at", "failure_code")
    rows = [["1" * 30, "2", "3" * 30, "c" * 20]]
    assert laid_out(names, rows, [False] * 4, 62)[0].split() == ["job_id", "pages", "failure_code"]


def test_a_persons_reason_for_a_pause_is_cut() -> None:
    reason = "the tape library is being moved until Monday, ask Jürgen Müller-Lüdenscheidt"
    names = ("kind", "timeout", "waiting", "running", "paused", "handler")
    rows = [["ocr", "7200 s", "11", "0", reason, "batchproc.handlers.ocr.ocr"]]
    lines = laid_out(names, rows, [False] * 6, 80)
    assert max(map(cell_len, lines)) <= 80
    assert "the tape" in lines[1]
    assert lines[1].endswith(".ocr.ocr")


def test_columns_that_say_something_are_not_left_out_in_silence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "screen_width", lambda: 80)
    output.table(NAMES, ROWS)
    shown = capsys.readouterr()
    assert shown.err == "not shown in 80 columns: pages, tags, path; --json has all\n"
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
