"""``documents history``, ``diff``, ``restore`` and ``text --set``: the revisions of one document."""

from __future__ import annotations

import textwrap
from collections import Counter
from typing import Any, BinaryIO

import click
from psycopg import Connection
from psycopg.rows import TupleRow

from batchproc.cli.shared.app import AFTER, ID, App, pass_app
from batchproc.cli.shared.login import login_name
from batchproc.cli.shared.messages import say
from batchproc.cli.shared.output import emit_json, json_option, print_broken, shown, table
from batchproc.core.counted import counted
from batchproc.core.durations import duration
from batchproc.core.errors import UsageError
from batchproc.core.kinds import CLASSIFY
from batchproc.core.shown_text import one_line
from batchproc.documents.diff import WordDiff, by_page, in_sum, line_diff, repeated
from batchproc.documents.history import PastRevision, RevisionHistory
from batchproc.documents.store import Document
from batchproc.documents.word_likeness import Likeness, by_likeness
from batchproc.ops.restoring import Editor

WIDTH = 80
LONGEST_WORD = 100
# Characters of a node's id, and of the hash of language data, that tell it from the others; --json has all.
_NODE = 8
_DATA = 12
# Held in memory as a whole: ten thousand pages of 6 kB each.
LARGEST_TEXT = 64 * 2**20


def known_document(app: App, connection: Connection[TupleRow], document_id: int) -> Document:
    """The document, of whatever tenant; raises UsageError when there is none."""
    try:
        return app.documents.load(connection, document_id)
    except LookupError as error:
        raise UsageError(str(error), "see: batchproc documents list") from None


def editor(app: App, document: Document) -> Editor:
    """Changes the document's text in the name of whoever runs this process."""
    # By the settings alone: no text should be out of reach because some handler cannot be imported.
    override = app.settings.kinds.get(CLASSIFY)
    max_attempts = (override and override.max_attempts) or app.settings.retry.max_attempts
    return Editor(app.jobs, document, login_name(), max_attempts)


@click.command("history")
@click.argument("document_id", type=ID)
@click.option("--after", type=AFTER, default=0, metavar="ID", help="Continue behind this revision.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Revisions a page.")
@json_option
@pass_app
def show_history(app: App, document_id: int, after: int, limit: int, as_json: bool) -> None:
    """List the revisions of a document, oldest first. Each is one reading of it.

    Its verdict says why it became the current one, or why not.
    """
    with app.connect() as connection:
        document = known_document(app, connection, document_id)
        history = RevisionHistory(app.schema, tenant_id=document.tenant_id)
        found = history.revisions(connection, document_id, after=after, limit=limit + 1)
    following = found[limit - 1].revision_id if len(found) > limit else None
    if as_json:
        emit_json({"document_id": document_id, "revisions": [_row(past) for past in found[:limit]], "next": following})
        return
    for past in found[:limit]:
        click.echo(_described(past))
    if not found:
        say(f"document {document_id} was not read yet")
    if following is not None:
        say(f"more with --after {following}")


@click.command("diff")
@click.argument("document_id", type=ID)
@click.argument("old", type=ID, metavar="[A]", required=False)
@click.argument("new", type=ID, metavar="[B]", required=False)
@click.option("--lines", is_flag=True, help="Show the changed lines of each page too.")
@click.option(
    "--words", "most", type=click.IntRange(0, 10_000), default=50, show_default=True, help="Words named of each kind."
)
@click.option("--all", "everything", is_flag=True, help="Name what looks like noise too, not only how much it is.")
@json_option
@pass_app
def show_diff(
    app: App,
    document_id: int,
    old: int | None,
    new: int | None,
    lines: bool,
    most: int,
    everything: bool,
    as_json: bool,
) -> None:
    """Show the words gained and lost from revision A to revision B.

    Without B it is the current one, without A the one before. The order of words does not count; one that moved to
    another page is in the counts of both pages, but not in the sum. Words stand first, then numbers; of lone
    letters, marks and what nobody could mean only the count, without --all. --json has all, the most frequent first.
    """
    with app.connect() as connection:
        document = known_document(app, connection, document_id)
        history = RevisionHistory(app.schema, tenant_id=document.tenant_id)
        old, new = history.compared(connection, document_id, old, new)
        before, after = history.pages(connection, old), history.pages(connection, new)
    pages = [_page_row(page, diff, before, after, lines, most) for page, diff in by_page(before, after).items()]
    diff = in_sum(before, after)
    total = _counts(diff, most)
    if as_json:
        emit_json({"document_id": document_id, "old": old, "new": new} | total | {"pages": pages})
        return
    print_broken(
        f"document {document_id}, revision {old} to {new}: {total['lost']} words lost, {total['gained']} gained"
    )
    if pages:
        click.echo()
        table(("page", "lost", "gained"), [[page["page"], page["lost"], page["gained"]] for page in pages])
    known = repeated(before) | repeated(after)
    for name, words in (("lost", diff.lost), ("gained", diff.gained)):
        _name_words(name, by_likeness(words, known), most, everything)
    for page in pages if lines else []:
        click.echo(f"\npage {page['page']}")
        for line in page["lines"]:
            click.echo(one_line(line))


@click.command("restore")
@click.argument("document_id", type=ID)
@click.argument("revision_id", type=ID, metavar="REVISION")
@json_option
@pass_app
def restore_revision(app: App, document_id: int, revision_id: int, as_json: bool) -> None:
    """Make an earlier REVISION of a document the current one again. It has to be a complete one.

    A job `classify` then gives title and tags from its text. The next OCR of the document may take its place.
    """
    app.log_to_stderr = app.verbose  # it would tell what is printed
    with app.connect() as connection:
        document = known_document(app, connection, document_id)
        done = editor(app, document).restore(connection, revision_id)
    if as_json:
        emit_json({"document_id": document_id, "revision": revision_id, "before": done.before, "job_id": done.job_id})
    elif done.job_id is None:
        print_broken(f"revision {revision_id} is the current one already")
    else:
        print_broken(f"revision {revision_id} is current again, instead of {done.before}; job {done.job_id} classifies")


def set_text(app: App, document_id: int, file: BinaryIO, as_json: bool) -> int:
    """``documents text --set``."""
    raw = file.read(LARGEST_TEXT + 1)
    if len(raw) > LARGEST_TEXT:
        raise UsageError(f"the text has more than {LARGEST_TEXT} bytes")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the text is not UTF-8: byte {error.start} cannot be read", "convert it to UTF-8") from None
    if "\0" in text:
        raise UsageError(
            f"the text holds a NUL character on line {text[: text.index(chr(0))].count(chr(10)) + 1}, as no text does",
            "if it is UTF-16, convert it to UTF-8; else take it out",
        )
    if not text.strip():
        raise UsageError("the text is empty", "what made it may have failed; the document keeps the text it has")
    app.log_to_stderr = app.verbose  # it would tell what is printed
    with app.connect() as connection:
        document = known_document(app, connection, document_id)
        done = editor(app, document).type(connection, text.split("\f"))
    if as_json:
        emit_json(
            {"document_id": document_id, "revision": done.revision_id, "before": done.before, "job_id": done.job_id}
        )
    else:
        print_broken(f"revision {done.revision_id} is the text now; job {done.job_id} classifies")
    return 0


def _row(past: PastRevision) -> dict[str, Any]:
    return {
        "revision_id": past.revision_id,
        "state": past.state,
        "current": past.current,
        "source": past.source,
        "engine": past.engine,
        "engine_version": past.engine_version,
        "data_hash": past.data_hash,
        "languages": past.languages,
        "mode": past.profile.get("mode"),
        "profile": past.profile,
        "source_sha256": past.source_sha256.hex(),
        "page_count": past.page_count,
        "done_pages": past.done_pages,
        "failed_pages": past.failed_pages,
        "words": past.words,
        "characters": past.characters,
        "confidence": past.confidence,
        "seconds": past.seconds,
        "node_id": past.node_id,
        "job_id": past.job_id,
        "created_at": past.created_at,
        "completed_at": past.completed_at,
        "verdict": past.verdict,
        "restored_at": past.restored_at,
        "restored_by": past.restored_by,
        "kept_versions": past.kept_versions,
    }


def _described(past: PastRevision) -> str:
    """A revision in a few lines of at most 80 columns."""
    state = f"{past.state}, current" if past.current else past.state
    head = f"revision {past.revision_id}  {state}" + (f" ({past.verdict})" if past.verdict else "")
    pages = counted(past.page_count, "page")
    if past.state != "complete":
        pages = f"{past.done_pages} of {pages}"
    confidence = f", confidence {past.confidence:.1f}" if past.confidence is not None else ""
    profile = ", ".join(f"{name} {shown(value)}" for name, value in past.profile.items())
    data = f", data {past.data_hash[:_DATA]}" if past.data_hash else ""
    node = f" on node {str(past.node_id)[:_NODE]}" if past.node_id else ""
    lines = [
        f"{past.engine} {past.engine_version}, {'+'.join(past.languages)}{data}" + (f", {profile}" if profile else ""),
        f"{pages}, {past.failed_pages} failed, {counted(past.words, 'word')}{confidence}",
        f"{shown(past.created_at)}, {duration(past.seconds)}{node}",
    ]
    if past.kept_versions is not None:
        lines.insert(1, f"with pages taken over that {past.engine} {', '.join(past.kept_versions)} had read")
    if past.source == "person":
        lines = ["made by a person", *lines[1:]]
    if past.restored_at is not None and past.verdict == "typed":
        lines.append(f"typed by {past.restored_by}")
    elif past.restored_at is not None:
        lines.append(f"restored {shown(past.restored_at)} by {past.restored_by}")
    wrapped = (
        textwrap.fill(one_line(line), WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
        for line in lines
    )
    return "\n".join([head, *wrapped])


def _page_row(
    page: int, diff: WordDiff, before: dict[int, str], after: dict[int, str], lines: bool, most: int
) -> dict[str, Any]:
    row = {"page": page} | _counts(diff, most)
    if lines:
        row["lines"] = list(line_diff(before.get(page, ""), after.get(page, "")))
    return row


def _counts(diff: WordDiff, most: int) -> dict[str, Any]:
    return {
        "lost": diff.lost.total(),
        "gained": diff.gained.total(),
        "lost_words": _named(diff.lost, most),
        "gained_words": _named(diff.gained, most),
    }


def _named(words: Counter[str], most: int) -> dict[str, int]:
    """The most frequent words, those as frequent by the alphabet, with how often each is there. Long ones are cut."""
    named: Counter[str] = Counter()
    for word, times in sorted(words.items(), key=lambda item: (-item[1], item[0]))[:most]:
        named[_cut(word)] += times
    return dict(named)


def _cut(word: str) -> str:
    return word if len(word) <= LONGEST_WORD else word[: LONGEST_WORD - 1] + "…"


def _name_words(name: str, found: dict[Likeness, list[tuple[str, int]]], most: int, everything: bool) -> None:
    noise = found[Likeness.NOISE]
    told = found[Likeness.WORD] + found[Likeness.NUMBER]
    if most and (told or noise):
        click.echo(f"\n{name}:")
        _list_words("", told, most)
        if everything:
            _list_words("like noise: ", noise, most)
        elif noise:
            print_broken(f"  and {sum(times for _, times in noise)} that look like noise; --all names them")


def _list_words(title: str, words: list[tuple[str, int]], most: int) -> None:
    if not words:
        return
    shown_words = [_cut(one_line(word)) + ("" if times == 1 else f" ({times}x)") for word, times in words[:most]]
    left = sum(times for _, times in words[most:])
    text = title + "  ".join(shown_words) + (f"  and {left} more" if left else "")
    click.echo(textwrap.fill(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False))
