"""What comes from outside is checked and bounded: a refusal names what is wrong, and nothing takes for ever."""

from __future__ import annotations

import io
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from batchproc.api import Queue
from batchproc.config import SettingsError, load
from batchproc.core.errors import UsageError
from batchproc.core.job import NewJob
from batchproc.handlers.rules import template
from batchproc.handlers.rules.patterns import Literal, Regex, SearchText
from batchproc.ops import strict_json
from batchproc.ops.enqueueing import parse_lines
from batchproc.queue import hints
from batchproc.yaml_lines import parse
from tests.cli.shell import Shell
from tests.engine.running import Bench, settings
from tests.ocr import drawn

SECONDS = 10.0
"""Far more than any refusal takes; what is not bounded takes minutes or all memory."""

DEEP = 100_000
HOSTILE_TEXT = "a\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e\u2028b"
VISIBLE = r"a\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202e\u2028b"


@pytest.fixture(autouse=True)
def _in_time() -> Iterator[None]:
    started = time.process_time()
    yield
    assert time.process_time() - started < SECONDS


class RefusingShell(Shell):
    def __init__(self, bench: Bench, capture: pytest.CaptureFixture[str]) -> None:
        super().__init__(bench.url, capture)
        self.bench = bench
        self.tenant = bench.tenant("acme")

    def refuses(self, *arguments: str, about: str = "") -> None:
        """The command ends with a usage error of one line, and nothing was enqueued or stored."""
        before = self.bench.rows("select count(*) from batchproc.processing_jobs")
        code, out, err = self.said(*arguments)
        which = [word[:60] for word in arguments]
        assert (code, out) == (2, ""), (which, err)
        assert err.startswith("batchproc: "), (which, err)
        assert err.count("\n") == 1, (which, err)
        assert err[:-1].isprintable(), (which, err)
        assert about in err, (which, err)
        assert self.bench.rows("select count(*) from batchproc.processing_jobs") == before, which


@pytest.fixture
def shell(bench: Bench, capfd: pytest.CaptureFixture[str]) -> RefusingShell:
    return RefusingShell(bench, capfd)


# -- YAML: settings, rules, variables

HOSTILE_YAML = {
    "aliases": "a: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\n",
    "cycle": "a: &a [*a]",
    "python object": "a: !!python/object/apply:os.system ['touch owned']",
    "python name": "a: !!python/name:os.system ''",
    "any tag": "a: !mine x",
    "broken bool": "a: !!bool maybe",
    "broken int": "a: !!int ''",
    "broken time": "a: !!timestamp x",
    "deep lists": "[" * DEEP,
    "deep maps": "{a: " * DEEP,
    "deep dashes": "- " * DEEP,
    "deep block": "\n".join(" " * level + "a:" for level in range(1000)),
    "many values": "[" + "1," * 60_000 + "]",
    "twice": "a: 1\na: 2",
    "twice deep": "a: {b: 1, b: 2}",
    "base sixty": "a: " + ":".join(["1"] * DEEP),
    "base sixty float": "a: " + ":".join(["1"] * 300) + ".5",
    "long number": "a: " + "9" * DEEP,
    "long hexadecimal": "a: 0x" + "f" * DEEP,
    "beyond unicode": 'a: "\\UFFFFFFFF"',
    "surrogate": 'a: "\\ud800"',
    "version": "%YAML 1." + "1" * 5000 + "\n---\na: 1",
    "NUL": "a: \0",
    "list as a key": "? [a]\n: b",
    "number as a key": "1: b",
    "merge": "<<: {a: 1}",
    "no date": "a: 2001-99-99",
    "two documents": "a: 1\n---\nb: 2",
    "endless": "a: '" + "x" * DEEP,
}


@pytest.mark.parametrize("name", HOSTILE_YAML)
def test_hostile_yaml_is_refused(name: str, tmp_path: Path) -> None:
    """With the line, without an exception of the parser, and whatever it asks for is not done."""
    found = parse(HOSTILE_YAML[name])
    assert found.faults
    assert all(fault.line >= 1 for fault in found.faults)
    file = tmp_path / "conf.yaml"
    file.write_text(HOSTILE_YAML[name])
    with pytest.raises(SettingsError) as caught:
        load(file, {})
    assert all(problem.isprintable() and len(problem) < 1000 for problem in caught.value.problems)
    assert not Path("owned").exists()


def test_a_file_of_settings_is_read_as_far_as_it_may_be_large(tmp_path: Path) -> None:
    large = tmp_path / "large.yaml"
    large.write_bytes(b"")
    os.truncate(large, 100_000_000)  # sparse: a hundred megabytes of NUL
    for path in (large, Path("/dev/zero"), Path("/proc/self/mem"), tmp_path):
        with pytest.raises(SettingsError):
            load(path, {})


@pytest.mark.parametrize(
    "value", ["[" * DEEP, "!!python/name:os.system ''", "*a", "'\\ud8", "1:" * 1000 + "1", "\x1b[2J"]
)
def test_hostile_variables_are_refused(value: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load(None, {"BATCHPROC_POOL__WORKERS": value, "BATCHPROC_X\n\x1b__Y": "1"})
    assert all(problem.isprintable() for problem in caught.value.problems)


@pytest.mark.parametrize(
    ("section", "values"),
    [
        ("database", {"schema": 'x"; drop schema public; --'}),
        ("database", {"schema": "pg_catalog"}),
        ("database", {"schema": "Ünïcode"}),
        ("database", {"schema": "a" * 64}),
        ("database", {"url": "host=h password=p"}),
        ("ocr", {"languages": ["../../etc/passwd"]}),
        ("ocr", {"languages": ["eng\n"]}),
        ("handlers", ["os; import shutil"]),
        ("handlers", ["../x"]),
        ("kinds", {"ocr; drop": {}}),
        ("resources", {"a b": 1}),
        ("resources", {"ai": 10**30}),
        ("run", {"accept_codes": ["a'b"]}),
        ("dispatch", {"lease": float("inf")}),
        ("dispatch", {"lease": float("nan")}),
        ("retry", {"max_attempts": 10**400}),
        ("storage", {"roots": ["a\0b"]}),
        ("logging", {"file": "relative"}),
    ],
)
def test_names_and_numbers_in_settings_are_what_they_may_be(section: str, values: Any) -> None:
    with pytest.raises(ValueError, match=section):
        settings(**{section: values})


# -- JSON: args, lines, manifests

HOSTILE_JSON = {
    "twice": '{"a": 1, "a": 2}',
    "twice deep": '{"a": [{"b": 1, "b": 2}]}',
    "NaN": '{"a": NaN}',
    "infinity": '{"a": -Infinity}',
    "becomes infinite": '{"a": 1e999}',
    "long number": '{"a": ' + "9" * 5000 + "}",
    "deep lists": '{"a": ' + "[" * 30_000 + "]" * 30_000 + "}",
    "deep objects": '{"a":' * 20_000 + "1" + "}" * 20_000,
    "rather deep": '{"a": ' + "[" * 80 + "]" * 80 + "}",
    "no object": "[1]",
    "text": '"x"',
    "rest": "{} {}",
    "nothing": "",
    "control character": '{"a": "\x01"}',
    "large": json.dumps({"a": "x" * 70_000}),
}


def test_hostile_args_are_refused(shell: RefusingShell) -> None:
    for text in HOSTILE_JSON.values():
        shell.refuses("enqueue", "t_none", "--force", "--tenant", "acme", "--args", text)


HOSTILE_LINES = [
    *(f'{{"args": {text}}}' for text in HOSTILE_JSON.values() if text != "{} {}"),
    '{"args": {}, "args": {}}',
    '{"args": {}, "extra": 1}',
    '{"run_at": "0001-01-01T00:00:00"}',
    '{"run_at": 1e300}',
    '{"priority": 99}',
    '{"priority": 99999999999999999999}',
    '{"lane": "fast"}',
    '{"document_id": 99999999999999999999}',
    '{"document_id": -1}',
    '{"unique_key": ""}',
    json.dumps({"unique_key": "x" * 201}),
    json.dumps({"unique_key": HOSTILE_TEXT}),
    json.dumps({"args": {"a": "x" * 300_000}}),
    "\xff",
    "x" * 300_000,
]


def test_hostile_lines_are_refused(shell: RefusingShell, monkeypatch: pytest.MonkeyPatch) -> None:
    """By their number, and none of those before them is enqueued."""
    for line in HOSTILE_LINES:
        text = b'{"args": {}}\n\n' + line.encode("latin-1" if line == "\xff" else "utf-8") + b"\n"
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))
        # Only the database knows documents, and it is told nothing of lines.
        about = "" if "document_id" in line else "line 3"
        shell.refuses("enqueue", "t_none", "--force", "--tenant", "acme", "--stdin", about=about)


def test_an_endless_line_fills_no_memory() -> None:
    class Endless(io.RawIOBase):
        served = 0

        def readable(self) -> bool:
            return True

        def readinto(self, buffer: Any) -> int:
            self.served += len(buffer)
            buffer[:] = b"x" * len(buffer)
            return len(buffer)

    endless = Endless()
    with pytest.raises(UsageError, match="line 1 has more than"):
        list(parse_lines(io.BufferedReader(endless)))
    assert endless.served < 1_000_000


def test_what_is_stored_is_what_was_read() -> None:
    value = {"a": [1, -2.5, "ü\U0001f600", None, True, {"b": {}}], "c": 2**70}
    assert strict_json.loads(json.dumps(value).encode()) == value
    assert strict_json.loads(b"\xef\xbb\xbf{}") == {}
    with pytest.raises(ValueError, match="UTF-8"):
        strict_json.loads(json.dumps(value).encode("utf-16"))


MANIFEST_LINES = {
    "twice": '{"path": "a", "path": "b"}',
    "NUL": '{"path": "a\\u0000b"}',
    "escaped NUL": '{"path": "a\\\\x00b"}',
    "surrogate": '{"path": "\\ud800"}',
    "surrogate in an id": '{"path": "a", "external_id": "\\ud800"}',
    "long id": json.dumps({"path": "a", "external_id": "x" * 501}),
    "empty path": '{"path": ""}',
    "number": '{"path": 1}',
    "language": '{"path": "a", "language": "../../x"}',
    "unknown": json.dumps({"path": "a", HOSTILE_TEXT: 1}),
    "deep": '{"path": ' + "[" * 50_000 + "]" * 50_000 + "}",
    "no JSON": HOSTILE_TEXT.replace("\r", ""),
    "no text": "\x80",
}


def test_hostile_manifest_lines_are_named_and_the_others_imported(shell: RefusingShell, tmp_path: Path) -> None:
    (tmp_path / "good.txt").write_text("good")
    manifest = tmp_path / "manifest"
    lines = [line.encode("latin-1" if line == "\x80" else "utf-8") for line in MANIFEST_LINES.values()]
    manifest.write_bytes(b"\n".join([*lines, b'{"path": "good.txt"}']))

    code, out, err = shell.said("import", "--tenant", "acme", "--manifest", str(manifest))

    assert code == 1
    assert "good.txt" in out
    *rejected, total = err.splitlines()
    assert len(rejected) == len(MANIFEST_LINES)
    assert total.startswith(f"{len(MANIFEST_LINES)} paths rejected: invalid_line")
    for number, line in enumerate(rejected, start=1):
        assert f"{manifest}:{number}: invalid_line" in line
        assert line.isprintable()


def test_a_manifest_that_is_none_is_given_up(shell: RefusingShell, tmp_path: Path) -> None:
    many = tmp_path / "many"
    many.write_bytes(b"x\n" * 200_000)
    code, out, _ = shell.said("import", "--tenant", "acme", "--json", "--manifest", str(many))
    assert code == 1
    assert len(json.loads(out)["rejected"]) == 1001
    code, out, _ = shell.said("import", "--tenant", "acme", "--json", "--manifest", "/dev/zero")
    assert [rejected["failure_code"] for rejected in json.loads(out)["rejected"]] == ["invalid_line"]


def test_applications_are_refused_what_cannot_be_stored(shell: RefusingShell) -> None:
    queue = Queue(shell.bench.url)
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    for args in ({"a": "x" * 70_000}, {"a": float("nan")}, {"a": nested}, {"a": object()}):
        with pytest.raises(UsageError, match="args"):
            queue.enqueue("t_quick", tenant="acme", args=args)
        with pytest.raises(UsageError, match="args"):
            queue.enqueue_many([NewJob(0, "t_quick", args)], tenant="acme")
    with pytest.raises(UsageError, match="range is no arg"):
        queue.enqueue("ocr", tenant="acme", args={"range": [1, 5]})
    for changes in ({"priority": 0}, {"unique_key": "x" * 201}, {"document_id": 2**70}):
        with pytest.raises(UsageError):
            queue.enqueue("t_quick", tenant="acme", **changes)
    with pytest.raises(UsageError):
        queue.enqueue("T'; drop table x", tenant="acme")
    with pytest.raises(UsageError):
        queue.enqueue("t_quick", tenant="' or '1'='1")


# -- the command line


HOSTILE_ARGUMENTS = [
    ["jobs", "show", "99999999999999999999"],
    ["jobs", "show", "0"],
    ["jobs", "show", "1; drop table x"],
    ["jobs", "list", "--after", "99999999999999999999"],
    ["jobs", "list", "--limit", "999999999"],
    ["documents", "list", "--after", "-1"],
    ["documents", "text", "1e3"],
    ["tenants", "list", "--after", "99999999999999999999"],
    ["tenants", "add", HOSTILE_TEXT],
    ["tenants", "add", "a" * 64],
    ["tenants", "add", "../x"],
    ["tenants", "set", "acme", "--weight", "nan"],
    ["tenants", "set", "acme", "--weight", "inf"],
    ["tenants", "set", "acme", "--max-running", "99999999999"],
    ["tenants", "set", "acme", "--languages", "../../etc/passwd"],
    ["import", "--tenant", "' or 1=1 --", "/tmp"],
    ["import", "--tenant", "acme", "--language", "a" * 5000 + "/../..", "/tmp"],
    ["import", "--tenant", "acme", ""],
    ["enqueue", HOSTILE_TEXT, "--tenant", "acme", "--force"],
    ["enqueue", "t_none", "--tenant", "acme", "--force", "--priority", "0"],
    ["enqueue", "t_none", "--tenant", "acme", "--force", "--at", "0001-01-01"],
    ["enqueue", "t_none", "--tenant", "acme", "--force", "--at", HOSTILE_TEXT],
    ["enqueue", "t_none", "--tenant", "acme", "--force", "--unique", HOSTILE_TEXT],
    ["enqueue", "t_none", "--tenant", "acme", "--force", "--unique", ""],
    ["enqueue", "t_none", "--tenant", "acme", "--force", "--document", "-5"],
    ["run", "--tenant", "nobody"],
    [HOSTILE_TEXT],
    ["--conf", "/dev/zero", "status"],
]


def test_hostile_arguments_are_usage_errors(shell: RefusingShell) -> None:
    for arguments in HOSTILE_ARGUMENTS:
        shell.refuses(*arguments)


def test_nothing_stored_controls_a_terminal(
    shell: RefusingShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Titles, external ids and file names with escape sequences, in tables, in fields and as JSON."""
    name = f"{HOSTILE_TEXT}.pdf".replace("/", "")
    file = tmp_path / name
    file.write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown("x"))))
    entry = {"path": name, "external_id": HOSTILE_TEXT, "title": HOSTILE_TEXT}
    (tmp_path / "manifest").write_text(json.dumps(entry))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    printed = [
        shell.said("import", "--tenant", "acme", "--manifest", str(tmp_path / "manifest")),
        shell.said("import", "--tenant", "acme", str(file)),
        *(shell.said(*command, *flag) for command in _LISTINGS for flag in ((), ("--json",))),
    ]
    for code, out, err in printed:
        assert code == 0, err
        assert (out + err).replace("\n", "").isprintable()
    found = json.loads(shell.said("documents", "show", "1", "--json")[1])
    assert (found["title"], found["external_id"]) == (HOSTILE_TEXT, HOSTILE_TEXT)
    assert VISIBLE in shell.said("documents", "show", "1")[1]


_LISTINGS = (["documents", "list"], ["documents", "show", "1"], ["jobs", "list"], ["jobs", "show", "1"], ["status"])


# -- rules


def test_a_regex_that_never_ends_ends_its_attempt_alone(shell: RefusingShell, tmp_path: Path) -> None:
    """Python's re has no bound of its own: no progress within stall_timeout, and the worker is replaced."""
    rules = tmp_path / "taxonomy"
    rules.mkdir()
    (rules / "default.yaml").write_text(
        "version: 1\nrules:\n- {name: slow, match: {regex: '(a+)+$'}, tags: [x]}\n- {name: b, match: b, tags: [b]}\n"
    )
    letters = tmp_path / "letters"
    letters.mkdir()
    text = "a" * 60 + "!"
    (letters / "slow.pdf").write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown(text))))
    (letters / "quick.pdf").write_bytes(drawn.pdf(drawn.PdfPage(drawn.shown("b"))))
    assert shell.said("import", "--tenant", "acme", str(letters))[0] == 0

    report = shell.bench.run(
        ocr={"languages": ["eng"]},
        taxonomy={"folder": str(rules)},
        kinds={"classify": {"stall_timeout": 1.0, "max_timeouts": 1}},
    )

    assert report.counts.codes == {"stalled": 1}
    assert shell.bench.rows("select tag from batchproc.document_tags") == [("b",)]


def test_patterns_of_words_take_no_time() -> None:
    text = SearchText(["a " * 50_000, "ab" * 50_000] * 20)
    for pattern in (Literal("a " * 400 + "b"), Literal("ab" * 400 + "c", whole_word=True), Regex(r"\bzz\b")):
        assert pattern.find(text) is None


@pytest.mark.parametrize(
    "text",
    ["{0}", "{title.__class__}", "{title[0]}", "{title!r}", "{title:>9999999999}", "{", "}", "{}", "{a b}", "{{{"],
)
def test_templates_reach_into_nothing(text: str) -> None:
    with pytest.raises(ValueError, match="lone brace"):
        template.names(text)


def test_values_are_not_templates_themselves() -> None:
    assert template.fill("{a}{{b}}", {"a": r"{b}\g<0>{a.__class__}", "b": "x"}) == r"{b}\g<0>{a.__class__}{b}"


# -- notices of the database


@pytest.mark.parametrize(
    "payload",
    [
        "",
        "x",
        "[]",
        "{}",
        "null",
        "[0, 1, 2, 3]",
        '[0, 1, "t_quick"]',
        '[0, true, "t_quick", 5]',
        '[9, 1, "t_quick", 5]',
        '[0, -1, "t_quick", 5]',
        '[0, 99999999999999999999, "t_quick", 5]',
        '[0, 1, "t; drop", 5]',
        '[0, 1, "t_quick\\n", 5]',
        '[0, NaN, "t_quick", 5]',
        "[" * 199,
        "9" * 199,
        '[1e999, 1, "t_quick", 5]',
        "x" * 7000,
    ],
)
def test_a_forged_notice_is_no_more_than_a_hint(payload: str) -> None:
    found = hints.parse(payload)
    assert not found


def test_a_node_goes_on_after_forged_notices(shell: RefusingShell) -> None:
    """They come from a handler, while the node listens; what it enqueues meanwhile is done."""
    job = shell.bench.enqueue(shell.tenant, "t_echo", {"word": "a"})
    notify = sql.SQL("select pg_notify('batchproc', {})")

    def forge(_: Any) -> None:
        with psycopg.connect(shell.bench.url, autocommit=True) as other:
            for payload in ("x", "[" * 199, '[0, 1, "no_such_kind", 5]', '[0, 12345, "t_quick", 1]', "9" * 7000):
                other.execute(notify.format(payload))

    _while_running(shell.bench, forge)
    assert shell.bench.job(job)["state"] == "completed"
    assert shell.bench.rows("select state from batchproc.processing_jobs where kind = 't_quick'") == [("completed",)]


def _while_running(bench: Bench, call: Callable[[Any], None]) -> None:
    """Runs the bench's jobs; ``call`` is called as the first outcome is told, in the dispatcher's thread."""
    told: list[Any] = []

    class Telling(list[Any]):
        def append(self, outcome: Any) -> None:
            if not told:
                told.append(outcome)
                call(outcome)

    bench.outcomes = Telling()
    bench.run()
    assert told
