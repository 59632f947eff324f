"""The title chain, as a pure function."""

from __future__ import annotations

import time
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from batchproc.handlers import title
from batchproc.handlers.title import Title, choose

LETTER = """
Muster & Söhne GmbH · Hauptstraße 12 · 10115 Berlin

Frau
Erika Beispiel
Lindenweg 7
50667 Köln

Köln, den 5. März 2024
Seite 1 von 2

Betreff: Kündigung des Mietvertrags

Sehr geehrte Frau Beispiel,
"""


def test_takes_the_first_of_rule_pdf_line_and_file_name() -> None:
    def chosen(rule_titles: list[str], pdf_title: str, first_page: str) -> Title | None:
        path = b"in/scan_of_minutes.pdf"
        return choose(rule_titles=rule_titles, pdf_title=pdf_title, first_page=first_page, path=path)

    assert chosen(["Invoice 4711", "Letter"], "Annual Report", "Minutes\n") == Title("Invoice 4711", "rule")
    assert chosen([" \x07 ", "Letter"], "Annual Report", "Minutes\n") == Title("Letter", "rule")
    assert chosen([], "Annual Report", "Minutes\n") == Title("Annual Report", "pdf")
    assert chosen([], "untitled", "12\nMinutes\n") == Title("Minutes", "line")
    assert chosen([], "untitled", "12\n--\n") == Title("scan of minutes", "file_name")


def test_a_name_of_nothing_printable_gives_no_title() -> None:
    assert choose(rule_titles=[], pdf_title=None, first_page="", path=b"\x01\x02") is None


@pytest.mark.parametrize(
    "pdf_title",
    [
        "",
        "  ",
        "untitled",
        "Untitled-1",
        "(anonymous)",
        "Unbenannt",
        "Ohne Titel",
        "Document1",
        "Dokument 2",
        "Microsoft Word - Brief an Meier",
        "Microsoft PowerPoint - deck.ppt",
        "PowerPoint-Präsentation",
        "report_final_v2.docx",
        "Angebot Müller.PDF",
        r"C:\Users\me\letter",
        "/tmp/print",
        "file:///tmp/x y",
        "Adobe Photoshop PDF",
        "SKMBT_36319",
        "scan0001",
        "20240105123456",
        "https://example.org/a",
        "þÿ\x00T\x00i\x00t",
        "R\ufffdchnung",
        "(cid:12)(cid:7)",
        "--- ***",
        "1234 5678",
        "scan_of_minutes.pdf",
        "Scan of minutes",
    ],
)
def test_refuses_pdf_titles_that_say_nothing(pdf_title: str) -> None:
    chosen = choose(rule_titles=[], pdf_title=pdf_title, first_page="", path=b"/in/Scan of minutes.pdf")
    assert chosen == Title("Scan of minutes", "file_name")


@pytest.mark.parametrize(
    "pdf_title",
    [
        "Annual Report 2023",
        "Invoice",
        "Über die Dörfer",
        "年次報告書",
        "Test of the brakes",
        "Document design",
        "हिन्दी",
    ],
)
def test_takes_pdf_titles_that_say_something(pdf_title: str) -> None:
    chosen = choose(rule_titles=[], pdf_title=pdf_title, first_page="A line that is good", path=b"x.pdf")
    assert chosen == Title(pdf_title, "pdf")


@pytest.mark.parametrize(
    "line",
    [
        "abc",
        "12",
        "- 3 -",
        "Page 3 of 12",
        "Seite 1/2",
        "S. 7",
        "p. xii",
        "12.03.2024",
        "5 March 2024",
        "March 5th, 2024",
        "Montag, den 3. Juni 2024",
        "Berlin, den 5. März 2024",
        "London, 12 May 2023",
        "Datum: 01.02.2023",
        "Tel. 030 / 123 456",
        "Telefon: +49 30 1234",
        "Fax (030) 12",
        "E-Mail: info@example.org",
        "www.example.org",
        "IBAN DE12 5001 0517 0648 4898 90",
        "Hauptstraße 12",
        "Lindenweg 7a",
        "221b Baker Street",
        "10115 Berlin",
        "D-80331 München",
        "London SW1A 1AA",
        "Springfield, IL 62704",
        "Postfach 12 34 56",
        "Sehr geehrte Damen und Herren,",
        "Dear Ms Smith,",
        "~ _ — . | =",
        "a.b.c.d.e 1 2 3 4",
        "aaaaaaa",
        "0815-4711-0042 x",
        "x" * 101,
    ],
)
def test_refuses_lines_that_are_not_about_the_document(line: str) -> None:
    assert list(title.good_lines(line)) == []


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("Invoice", "Invoice"),
        ("  *** Protokoll   der Sitzung *** ", "Protokoll der Sitzung"),
        ("Rechnung vom 12.03.2024", "Rechnung vom 12.03.2024"),
        ("2023 Annual Report", "2023 Annual Report"),
        ("Subject: Your order", "Your order"),
        ("Mobile working at home", "Mobile working at home"),
        ("A Street Through Time", "A Street Through Time"),
        ("Договор аренды", "Договор аренды"),
        ("会議議事録", "会議議事録"),
    ],
)
def test_takes_lines_that_are(line: str, expected: str) -> None:
    assert list(title.good_lines(line)) == [expected]


def test_a_letter_gets_the_first_line_that_is_not_its_head() -> None:
    lines = list(title.good_lines(LETTER))
    assert "Kündigung des Mietvertrags" in lines
    assert not any(word in line for line in lines for word in ("Köln", "Lindenweg", "Seite", "geehrte"))


def test_only_the_beginning_of_the_page_is_looked_at() -> None:
    assert list(title.good_lines("1\n" * 59 + "Late title")) == ["Late title"]
    assert list(title.good_lines("1\n" * 60 + "Late title")) == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (b"/a/b/Rechnung_Nr_12.pdf", "Rechnung Nr 12"),
        ("/a/Straße.tiff".encode(), "Straße"),
        ("/a/Straße.tiff".encode("latin-1"), "Straße"),
        (b"8087_054.3B.tif", "8087 054.3B"),
        (b".pdf", ".pdf"),
        (b"-rf", "-rf"),
        (b"two\nlines.png", "two lines"),
        (b"___.png", "___.png"),
        ("rlo\u202egpj.exe".encode(), "rlogpj"),
        (b"notes", "notes"),
    ],
)
def test_file_names_as_titles(path: bytes, expected: str) -> None:
    assert choose(rule_titles=[], pdf_title=None, first_page="", path=path) == Title(expected, "file_name")


@settings(deadline=None, max_examples=50)
@given(st.text(max_size=400))
def test_titles_are_one_visible_line_of_bounded_length(text: str) -> None:
    cleaned = title.clean(text * 3)
    assert len(cleaned) <= title.MAX_TITLE
    assert cleaned == " ".join(cleaned.split())
    assert all(unicodedata.category(character)[0] != "C" or character in "\u200c\u200d" for character in cleaned)


@settings(deadline=None, max_examples=50)
@given(st.lists(st.text(max_size=30), max_size=3), st.text(max_size=60), st.text(max_size=200), st.binary(min_size=1))
def test_no_input_breaks_the_chain(rule_titles: list[str], pdf_title: str, page: str, path: bytes) -> None:
    chosen = choose(rule_titles=rule_titles, pdf_title=pdf_title, first_page=page, path=path)
    assert chosen is None or chosen.text == title.clean(chosen.text) != ""


@pytest.mark.parametrize("unit", ["a ", "1 ", "a.", "@a", "Straße ", "1a, ", "AB12 ", "- ", "den 1. ", "\u0301a"])
def test_hostile_lines_cost_little(unit: str) -> None:
    page = "\n".join((unit * 1000)[:length] for length in range(4, 1004, 10))
    started = time.process_time()
    list(title.good_lines(page))
    title.is_good_pdf_title(title.clean(unit * 200))
    assert time.process_time() - started < 2
