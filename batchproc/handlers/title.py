"""The title of a document: the first of rule, PDF title, first good line, file name that is fit to be one. Pure.

What is fit is judged by rules of thumb for English and German, and by character classes for everything else: a
candidate is refused when it says nothing about the document, such as ``untitled``, a page number or an address.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from batchproc.core.limits import bounded_text

MAX_TITLE = 200
MAX_LINES = 60
MAX_LINE_CHARACTERS = 1000

Source = Literal["rule", "pdf", "line", "file_name"]

# Zero-width (non-)joiners shape Persian and Indic words; all other invisible characters only serve to deceive.
_JOINERS = "\u200c\u200d"
_EXTENSION = re.compile(r"(?<=.)\.[A-Za-z0-9]{1,5}$")
_DOCUMENT_EXTENSION = re.compile(
    r"\.(pdf|docx?|docm|dotx?|xlsx?|xlsm|pptx?|ppsx?|od[tspg]|rtf|txt|md|tex|dvi|ps|eps|tiff?|jpe?g|png|gif|bmp|html?|xml"
    r"|indd|qxd|p65|cdr|ai|pub|pages|key|numbers|wpd|wps|vsdx?|msg|eml)\W*$",
    re.IGNORECASE,
)
_EMPTY_PDF_TITLE = re.compile(
    r"(?:(?:microsoft (?:word|excel|powerpoint|outlook|publisher)|powerpoint|excel|word)\s*-.*"
    r"|\(?(?:untitled|unbenannt|ohne titel|kein titel|no title|unknown|unbekannt|anonymous|none|null|title|titel)\)?"
    r"(?:[ _-]*(?:document|dokument))?[ _-]*\d*"
    r"|(?:new |neues |scanned |gescanntes )?(?:document|dokument|doc|page|seite|slide|folie|image|bild|scan|print|druck"
    r"|presentation|präsentation|book|mappe|sheet|tabelle)[ _-]*\d*"
    r"|powerpoint[- ](?:presentation|präsentation)|full page photo|print (?:job|preview).*|about:.*"
    r"|scanned? (?:by|from|with) .*|layout \d+|adobe .*|pdf|temp|tmp|test)",
    re.IGNORECASE,
)
_MOJIBAKE = re.compile("\ufffd|þÿ|ÿþ|Ã[\x80-\xbf¤-¿]|\\(cid:\\d+\\)")
_URL = re.compile(r"https?://|\bwww\.|\b[\w.+-]+@[\w-]+(?:\.[\w-]+)+", re.IGNORECASE)
_PAGE_NUMBER = re.compile(
    r"[\W_]*(?:page|seite|blatt|sheet|pg|p|s)\b\W*(?:\d+|[ivxlc]+)(?:\W*(?:of|von|out of|/)?\W*\d+)?[\W_]*",
    re.IGNORECASE,
)
_MONTH = (
    r"jan(?:uary|uar)?|jän(?:ner)?|feb(?:ruary|ruar)?|mar(?:ch)?|märz?|apr(?:il)?|may|mai|june?|juni?|july?|juli?"
    r"|aug(?:ust)?|sept?(?:ember)?|o[ck]t(?:ober)?|nov(?:ember)?|de[cz](?:ember)?"
)
_DATE_WORD = re.compile(
    rf"\b(?:{_MONTH}|monday|tuesday|wednesday|thursday|friday|saturday|sunday|montag|dienstag|mittwoch|donnerstag|freitag"
    r"|samstag|sonnabend|sonntag|date|datum|den|der|vom|the|of|dated|uhr|am|pm|um|at)\b|(?<=\d)(?:st|nd|rd|th)\b",
    re.IGNORECASE,
)
_PLACE_AND_DATE = re.compile(
    r"\w[\w. -]{1,40}(?:,\s*(?:den\s+|the\s+)?|\sden\s+)"
    rf"(?:\d{{1,2}}\.\s?(?:\d{{1,2}}\.|(?:{_MONTH})\b)|\d{{1,2}}\s+(?:{_MONTH})\b"
    rf"|(?:{_MONTH})\s+\d{{1,2}}\b|\d{{4}}-\d\d-\d\d)\W*\d{{0,4}}\W*",
    re.IGNORECASE,
)
_CONTACT = re.compile(
    r"\W*(?:tel(?:efon|efax|ephone)?|phone|fax|mobile?|handy|e-?mail|internet|web(?:site)?|homepage|iban|bic|swift|konto"
    r"|bank|blz|ust[-. ]?id\w*|vat|steuer-?(?:nr|nummer)|tax id|hrb|registergericht|po box|p\.o\. box|postfach)\b\.?"
    r"\s*(?:(?:no|nr|number|nummer|reg)\b\.?\s*)*[:.]*\s*(?:[+(\d]|[A-Z]{2}\s?\d|[\w.+-]+@|\S+\.\S+$).*",
    re.IGNORECASE,
)
_STREET = re.compile(
    r"\b\w*(?:stra(?:ß|ss)e|str\.|weg|platz|allee|gasse|damm|ufer|chaussee|promenade)\s*\d+\s?[a-z]?\b"
    r"|^\W*\d{1,5}[a-z]?,?\s+(?:\w+\W+){1,4}(?:street|st|road|rd|avenue|ave|lane|ln|drive|dr|boulevard|blvd|square|court"
    r"|terrace|place|way|parkway|highway)\b\.?(?:\W|$)",
    re.IGNORECASE,
)
_POSTAL_CODE = re.compile(
    r"(?:^|[,·•|/]\s*|\b(?:D|A|CH|DE|AT)\s?-\s?)(?!(?:19|20)\d\d\s)\d{4,5}\s+[A-ZÄÖÜ][\w.-]+(?:\s[\w./()-]+){0,3}\W*$"
    r"|\b[A-Z]{1,2}\d[A-Z\d]?\s+\d[A-Z]{2}\b|,\s*[A-Z]{2}\s+\d{5}(?:-\d{4})?\b"
)
_SALUTATION = re.compile(
    r"\W*(?:sehr geehrter?|liebe[rs]?|hallo|guten (?:tag|morgen)|dear|hello|hi|to whom it may concern|herrn?|frau|mrs?"
    r"|mit freundlichen|yours|kind regards|best regards|an (?:die|den|das|herrn|frau)|c/o|z\. ?h(?:d|\.)?)\b.*",
    re.IGNORECASE,
)
_SUBJECT = re.compile(r"\W*(?:betreff|betrifft|betr\.|subject|re|title|titel)\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Title:
    """A title with where it came from."""

    text: str
    source: Source


def choose(*, rule_titles: Iterable[str], pdf_title: str | None, first_page: str, path: bytes) -> Title | None:
    """The best title there is, at most 200 characters on one line.

    Args:
        rule_titles: what the matching rules make of their templates, the rule that goes first first.
        pdf_title: the title in the PDF's own metadata.
        first_page: the text of page 1.
        path: the document's path as the file system has it.

    Returns:
        None only when the file name holds nothing that can be printed either.
    """
    name = file_name(path)
    in_metadata = clean(pdf_title or "")
    candidates: tuple[tuple[Source, Iterable[str]], ...] = (
        ("rule", map(clean, rule_titles)),
        ("pdf", [in_metadata] if is_good_pdf_title(in_metadata, name) else []),
        ("line", good_lines(first_page)),
        ("file_name", [from_file_name(name)]),
    )
    for source, texts in candidates:
        for text in texts:
            if text:
                return Title(text, source)
    return None


def clean(text: str) -> str:
    """``text`` on one line of at most 200 characters, without control and other invisible characters."""
    spaced = " ".join(text[: MAX_TITLE * 20].split())
    visible = "".join(
        character for character in spaced if character in _JOINERS or unicodedata.category(character)[0] != "C"
    )
    return bounded_text(" ".join(visible.split()), MAX_TITLE) or ""


def is_good_pdf_title(title: str, name: str = "") -> bool:
    """Whether a cleaned PDF title says something: no default of a program, no file name, no garbage.

    Args:
        name: the document's own file name, which is no title either.
    """
    letters = sum(map(_is_letter, title))
    if letters < 2 or letters < 0.4 * len(title.replace(" ", "")):
        return False
    if _EMPTY_PDF_TITLE.fullmatch(title) or _MOJIBAKE.search(title) or _URL.match(title):
        return False
    return not (_is_like_file_name(title) or title.casefold() in {name.casefold(), _stem(name).casefold()})


def _is_like_file_name(title: str) -> bool:
    """An extension, a path, or one word that is put together as only file names are (``SKMBT_36319``, ``scan0001``)."""
    if _DOCUMENT_EXTENSION.search(title) or re.match(r"[A-Za-z]:\\|\\\\|/\w|file:", title):
        return True
    return " " not in title and ("_" in title or re.search(r"\d{3}", title) is not None)


def good_lines(page: str) -> Iterator[str]:
    """The lines among the first 60 of a page that may serve as its title, cleaned, in their order."""
    for line in _lines(page):
        subject = _SUBJECT.match(line)
        text = clean(line[subject.end() :] if subject else line).strip(" \t-–—_=*#|:;,.•·~")
        if is_good_line(text):
            yield text


def _lines(page: str) -> Iterator[str]:
    filled = (line for line in page[: MAX_LINES * MAX_LINE_CHARACTERS].splitlines() if line.strip())
    for _, line in zip(range(MAX_LINES), filled, strict=False):
        yield line[:MAX_LINE_CHARACTERS]


def is_good_line(line: str) -> bool:
    """Whether a cleaned line may be a title: 4 to 100 characters, mostly letters, and about the document.

    Not page numbers, dates, contact data, addresses, salutations, and not what OCR makes of specks and rules.
    """
    if not 4 <= len(line) <= 100 or not _reads_as_words(line):
        return False
    if _PAGE_NUMBER.fullmatch(line) or _is_date(line) or _SALUTATION.fullmatch(line):
        return False
    return not (_URL.search(line) or _CONTACT.fullmatch(line) or _STREET.search(line) or _POSTAL_CODE.search(line))


def _reads_as_words(line: str) -> bool:
    runs = ["".join(run) for letters, run in groupby(line, _is_letter) if letters]
    letters = "".join(runs)
    if len(letters) < 0.5 * len(line.replace(" ", "")):
        return False
    return max(map(len, runs), default=0) >= 3 and len(set(letters.casefold())) >= 3


def _is_letter(character: str) -> bool:
    """A letter, or one of the marks that in many scripts are half of a word."""
    return unicodedata.category(character)[0] in "LM"


def _is_date(line: str) -> bool:
    if not any(map(str.isdigit, line)):
        return False
    return not any(map(str.isalpha, _DATE_WORD.sub("", line))) or _PLACE_AND_DATE.fullmatch(line) is not None


def file_name(path: bytes) -> str:
    """The last part of a path as text: UTF-8, else Latin-1, which old archives have and which never fails."""
    name = path.rstrip(b"/").rpartition(b"/")[2]
    try:
        return name.decode("utf-8")
    except UnicodeDecodeError:
        return name.decode("latin-1")


def from_file_name(name: str) -> str:
    """A file name as a title: without its extension, underscores as spaces."""
    spaced = clean(_stem(name).replace("_", " "))
    return spaced if any(map(str.isalnum, spaced)) else clean(name)


def _stem(name: str) -> str:
    return _EXTENSION.sub("", name)
