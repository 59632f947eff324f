"""Every command that the pages and the examples of ``conf`` tell of is run here, in a session, or in a test named here.

Those that a page shows with what they print are run by ``test_readme.py`` and ``test_documentation.py``. What is only a
name in a sentence (``jobs show``, ``--dry-run``) is parsed by the real command line.
"""

from __future__ import annotations

import ast
import json
import re
import shlex
import signal
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from _pytest.mark.expression import Expression

from batchproc.cli import main
from batchproc.database import connect
from batchproc.ops.drawing import broken_pdf
from tests.cli import told_commands
from tests.cli.documentation import FOREIGN_OPTIONS, HANDLERS, PAGES, README, REPO, code_of, command_lines, fences
from tests.cli.test_conf_examples import commands
from tests.drawing import text_pdf
from tests.engine.test_sd_notify import Manager
from tests.faults.command import started
from tests.waiting import wait_until

TOLD = told_commands.told()
SESSIONS = told_commands.of_sessions()
NAMES = frozenset(line for line in TOLD if told_commands.lacks_something(told_commands.shortcoming(line)))

# They serve until they are stopped.
SERVICES = {
    "run --forever",
    "run --forever --lane interactive",
    "import /srv/scans --recursive --tenant acme --watch",
}

_BENCH = "tests/ops/test_bench"
_OF_CLAIMS = f"{_BENCH}_claim.py::test_claims_on_a_large_table_are_measured_beside_claims_on_a_small_one"
_DB = "tests/cli/test_db.py::test_"

# Other tests run them: benches with smaller numbers, the embedded server's in a home of their own, at a terminal.
ELSEWHERE = {
    "bench claim": _OF_CLAIMS,
    "bench enqueue": f"{_BENCH}_speed.py::test_enqueueing_is_measured_beside_bare_copy",
    "bench fairness": f"{_BENCH}_fairness.py::test_it_runs_the_same_load_on_both_sides",
    "bench latency": f"{_BENCH}_speed.py::test_latency_is_measured_from_the_call_to_the_handlers_start",
    "bench ocr": f"{_BENCH}.py::test_the_ocr_bench_reads_the_same_pages_on_both_sides",
    "bench parent": f"{_BENCH}_parent.py::test_each_side_is_measured_with_a_few_slots",
    "bench promotion": f"{_BENCH}_upkeep.py::test_jobs_are_promoted_beside_ticks",
    "bench promotion --jobs 1000000 --tenants 10000": f"{_BENCH}_upkeep.py::test_jobs_are_promoted_beside_ticks",
    "bench prune": f"{_BENCH}_upkeep.py::test_a_prune_goes_on_beside_a_run",
    "bench prune --finished 5000000 --jobs 30000": f"{_BENCH}_upkeep.py::test_a_prune_goes_on_beside_a_run",
    "bench queue": f"{_BENCH}.py::test_the_command_prints_one_line_of_json",
    "bench queue --campaign": f"{_BENCH}.py::test_the_queue_bench_runs_all_jobs_and_touches_nothing",
    "bench ranges": f"{_BENCH}.py::test_the_ranges_bench_reads_one_document_on_one_worker_and_on_several",
    "bench ready": f"{_BENCH}_claim.py::test_looks_for_ready_queues_are_measured_with_their_memory",
    "bench simulate": f"{_BENCH}_simulate.py::test_the_bench_measures_and_simulates",
    "db dump FILE": f"{_DB}dump_and_restore_start_the_server_themselves",
    "db dump before-upgrade.dump": f"{_DB}dump_and_restore_start_the_server_themselves",
    "db psql": f"{_DB}psql_gets_the_arguments",
    "db restore FILE": f"{_DB}dump_and_restore_start_the_server_themselves",
    "db start": f"{_DB}a_server_is_started_shown_and_stopped",
    "db status": f"{_DB}a_server_is_started_shown_and_stopped",
    "db stop": f"{_DB}a_server_is_started_shown_and_stopped",
    "db stop --force": f"{_DB}a_server_that_a_run_uses_is_stopped_by_force_only",
    "db url": f"{_DB}a_server_is_started_shown_and_stopped",
    "demo": "tests/ops/test_demo.py::test_the_demo",
    "run --once 12 --in-process": "tests/cli/test_once.py::test_in_process_stops_in_the_debugger",
    "status --watch": "tests/cli/test_status_watch.py::test_watching_shows_the_slots_moves_on_and_ends_with_q",
}

HERE = TOLD - SESSIONS - NAMES - SERVICES - ELSEWHERE.keys()
# Names in a sentence, too, though the command itself says so and not the parser: it wants filters.
REFUSED = {line for line in HERE if re.fullmatch(r"jobs retry|reprocess(?: --dry-run| --mode \w+| --pilot \d+)*", line)}
RUNS = sorted(line for line in HERE if line.startswith("run "))
OTHERS = sorted(HERE - {*RUNS})


# -- run here


@dataclass
class Reader:
    """Who follows the pages, in a folder where ``/srv`` and ``/etc`` stand for those there.

    Attributes:
        document: one that was read, and read again by the campaign ``reread``.
    """

    folder: Path
    url: str
    document: int = 0
    reread: int = 0

    @property
    def environment(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "BATCHPROC_HOME": str(self.folder / "home"),
            "BATCHPROC_DATABASE_URL": self.url,
            "BATCHPROC_CONF": str(self.folder / "srv" / "site.yaml"),
            "BATCHPROC_POOL__WORKERS": "1",
        }

    def run(self, line: str) -> int:
        """Runs the command in this process, with what is here; its exit code."""
        return self.give(self.words(line))

    def give(self, words: list[str]) -> int:
        """As they are."""
        with pytest.MonkeyPatch.context() as patch:
            for name, value in self.environment.items():
                patch.setenv(name, value)
            patch.chdir(self.folder)
            return main.run(words)

    def words(self, line: str) -> list[str]:
        """With what is here in the place of what the pages speak of; what the line needs is made before."""
        line = re.sub(r"(campaigns revert) \d+", rf"\1 {self.reread}", line)
        line = re.sub(r"(campaigns (?!revert)\w+|--campaign) \d+", lambda at: f"{at[1]} {self.campaign(line)}", line)
        line = re.sub(r"(documents \w+|--document) (?:\d+|ID)", rf"\1 {self.document}", line)
        line = re.sub(r"(jobs \w+|why|run --once) (?:\d+|JOB_ID)", lambda at: f"{at[1]} {self.job(line)}", line)
        if "ROOT" in line:
            self.need(f"import {self.folder}/srv/scans --tenant acme --reread")  # perhaps it was forgotten
        if told_commands.PLACE.search(line):
            before, revision = (str(number) for (number,) in self.rows(_REVISIONS, self.document)[:2])
            known = {"[A]": before, "BEFORE": before, "[B]": revision, "REVISION": revision}
            known |= {"SLUG": "acme", "KIND": "classify", "ROOT": "/srv/scans", "FILE": "/srv/text.txt"}
            line = told_commands.PLACE.sub(lambda place: known[place[0]], line)
        return [re.sub(r"^/(?=srv/|etc/)", f"{self.folder}/", word) for word in shlex.split(line)]

    def job(self, line: str) -> int:
        """One that waits, to be run; else one that was given up on."""
        if line.startswith("run "):
            return self.id_of(_WAITING_JOB)
        if not (found := self.rows(_DISCARDED_JOB)):
            self.need(f"enqueue classify --tenant acme --document {self.document}")
            self.need(f"jobs discard {self.id_of(_WAITING_JOB)}")
            return self.id_of(_DISCARDED_JOB)
        return int(found[0][0])

    def campaign(self, line: str) -> int:
        """One whose jobs wait or are held; or were cancelled, where the line asks for such."""
        if not self.rows(_CAMPAIGN, ["available", "held"]):
            self.need("reprocess --tenant acme --kind classify")
        found = self.id_of(_CAMPAIGN, ["available", "held"])
        if "--state cancelled" in line:
            self.need(f"campaigns cancel {found} --yes")
        return found

    def need(self, line: str) -> None:
        assert self.give(line.split()) == 0

    def id_of(self, query: str, *values: object) -> int:
        """The first that is found."""
        return int(self.rows(query, *values)[0][0])

    def rows(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        with connect(self.url) as connection:
            return connection.execute(query.encode(), values).fetchall()


_REVISIONS = "select revision_id from batchproc.ocr_revisions where document_id = %s and state = 'complete' order by 1"
_WAITING_JOB = "select job_id from batchproc.processing_jobs where state = 'available' order by 1"
_DISCARDED_JOB = "select job_id from batchproc.processing_jobs where state = 'discarded' order by 1"
_CAMPAIGN = "select campaign_id from batchproc.campaign_jobs where state = any(%s) order by 1 desc"
_READ = "select document_id from batchproc.documents where status = 'completed' order by 1 desc"
_NEWEST_CAMPAIGN = "select max(campaign_id) from batchproc.campaigns"


_MODULES = {"archive_handlers": README, "thumbnail_example": HANDLERS}
"""The handlers of the pages, and where they are written."""


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory, template_databases: Any) -> Iterator[Reader]:
    """A reader with a tenant acme, whose three files were read (one is damaged, and one was read again)."""
    folder = tmp_path_factory.mktemp("reader")
    _write_files(folder)
    modules = folder / "modules"
    _write_handlers(folder, modules)
    with template_databases.new() as url, pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(modules))
        patch.setenv("PYTHONPATH", f"{modules}:{REPO}")
        for module in _MODULES:
            patch.delitem(sys.modules, module, raising=False)
        made = Reader(folder, url)
        first = ("tenants add acme", "tenants add demo-acme", "import /srv/scans --tenant acme", "run")
        assert [made.run(line) for line in first] == [0, 0, 0, 1]
        made.document = made.id_of(_READ)
        assert made.run(f"reprocess --document {made.document} --mode redo") == 0
        made.reread = made.id_of(_NEWEST_CAMPAIGN)
        assert made.run("run") == 0
        yield made
        for module in _MODULES:
            sys.modules.pop(module, None)


def _write_files(folder: Path) -> None:
    """With text layers, which are read in no time."""
    for made in ("srv/scans", "srv/thumbnails", "etc/batchproc"):
        (folder / made).mkdir(parents=True)
    broken_pdf(folder / "srv" / "scans" / "broken.pdf")
    for name in ("invoice", "lease"):
        text_pdf(f"The {name} of Parker and Sons Limited\n60 Park Avenue, Winchester", folder / f"srv/scans/{name}.pdf")
    text_pdf("A letter that is in no archive, of 4 April 2020", folder / "scan.pdf")
    (folder / "srv" / "text.txt").write_text("What a person reads there\n")
    passwords = folder / "etc" / "batchproc" / "acme.passwords"
    passwords.write_text("open sesame\n")
    passwords.chmod(0o600)


def _write_handlers(folder: Path, modules: Path) -> None:
    modules.mkdir()
    for module, page in _MODULES.items():
        [source] = [fence.text for fence in fences(page) if "@handler" in fence.text]
        (modules / f"{module}.py").write_text(source.replace("/srv/", f"{folder}/srv/"), "utf-8")
    settings = {"handlers": list(_MODULES), "metrics": {"textfile": f"{folder}/metrics.prom"}}
    (folder / "srv" / "site.yaml").write_text(json.dumps(settings))  # JSON is YAML


@pytest.mark.parametrize("line", RUNS)
def test_a_run_that_is_told_of_runs(line: str, reader: Reader, capfd: pytest.CaptureFixture[str]) -> None:
    lane = "interactive" if "interactive" in line else "bulk"
    assert reader.run(f"enqueue classify --tenant acme --document {reader.document} --lane {lane}") == 0
    capfd.readouterr()
    assert reader.run(line) == 0
    said = capfd.readouterr()
    assert ("completed" in said.out) is ("--once" in line), "only of one job it is told that all is well"
    assert "Traceback" not in said.err


@pytest.mark.parametrize("line", OTHERS)
def test_a_command_that_is_told_of_runs(line: str, reader: Reader, capfd: pytest.CaptureFixture[str]) -> None:
    """In whatever order."""
    code = reader.run(line)
    said = capfd.readouterr()
    assert (code, line) == (2 if line in REFUSED else 0, line), said.err
    assert ("nothing says which" in said.err) is (line in REFUSED)
    assert "Traceback" not in said.err


@pytest.mark.timeout(60)
def test_the_services_that_are_told_of_start_and_end(reader: Reader, tmp_path: Path) -> None:
    """All at a time, for most of their time is that of their start."""
    assert SERVICES <= TOLD
    with ExitStack() as stack:
        managers, runs = [], []
        for number, line in enumerate(sorted(SERVICES)):
            managers.append(stack.enter_context(Manager(str(tmp_path / str(number)))))
            environment = {**reader.environment, "NOTIFY_SOCKET": managers[-1].address}
            words = [sys.executable, "-P", "-m", "batchproc", *reader.words(line)]
            runs.append(stack.enter_context(started(words, environment)))
        for manager in managers:
            wait_until(partial(_is_ready, manager), 40, "it is ready")
        for run in runs:
            run.send(signal.SIGTERM)
        assert [(run.wait(20), run.output()[0]) for run in runs] == [(0, "")] * len(runs)


def _is_ready(manager: Manager) -> bool:
    return "READY" in manager.states()


# -- run elsewhere


@pytest.mark.parametrize(("line", "test"), ELSEWHERE.items())
def test_a_command_is_run_by_the_test_that_is_named(line: str, test: str) -> None:
    """The words of the command stand in it, or in a fixture of its module, and CI does not leave it out."""
    file, _, name = test.partition("::")
    module = ast.parse((REPO / file).read_text("utf-8"))
    [function] = [found for found in module.body if isinstance(found, ast.FunctionDef) and found.name == name]
    marks = {found.attr for mark in function.decorator_list for found in ast.walk(mark) if type(found) is ast.Attribute}
    assert not marks & {"long", "skip", "skipif"}
    takes = {argument.arg for argument in function.args.args}
    used = [function, *(found for found in module.body if getattr(found, "name", None) in takes)]
    texts = {found.value for part in used for found in ast.walk(part) if isinstance(found, ast.Constant)}
    words = {word for word in line.split() if not re.search(r"\d|[A-Z]|\.", word)}
    assert words - {"bench", "db"} <= texts, f"{test} does not run {line}"


def test_nothing_is_named_that_is_not_told_of() -> None:
    assert ELSEWHERE.keys() | SERVICES <= TOLD - NAMES
    assert {"jobs retry", "reprocess"} <= REFUSED
    assert len(HERE) > 50


# -- only named


def test_what_is_only_named_lacks_something_and_nothing_else_is_wrong() -> None:
    """All else is parsed as it stands, but for files that are the reader's."""
    assert "jobs show" in NAMES
    assert not NAMES & (told_commands.of_blocks() | {" ".join(words[1:]) for words in map(shlex.split, commands())})
    wrong = {line: told_commands.shortcoming(line) for line in TOLD - NAMES}
    assert {
        line: error.message
        for line, error in wrong.items()
        if error and not re.search("not exist|No such file", error.message)
    } == {}


@pytest.mark.parametrize("options", sorted(told_commands.options_alone()))
def test_options_that_stand_alone_are_taken_by_a_command(options: str) -> None:
    taken = told_commands.takes(main.cli, shlex.split(told_commands.PLACE.sub("1", options)))
    assert taken is (options not in FOREIGN_OPTIONS)


def test_options_that_no_command_takes_are_found() -> None:
    for options in (["--onec"], ["--lane", "middle"], ["--workers", "two"]):
        assert not told_commands.takes(main.cli, options)


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        ("status --check, as Nagios", "status --check"),
        ("status --check --max-age 26h does", "status --check --max-age 26h"),
        ("jobs list and", "jobs list"),
        ("run --until 06:00 at night", "run --until 06:00"),
        ("is a program", None),
    ],
)
def test_a_command_in_a_sentence_ends_where_the_sentence_goes_on(sentence: str, command: str | None) -> None:
    assert told_commands.longest(sentence) == command


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        ("status --chek, as Nagios", "status --chek"),
        ("status --check --max-ag 26h does", "status --check --max-ag"),
        ("kinds set KIND --resmue when", "kinds set KIND --resmue"),
        ("jobs lst 7", "jobs lst"),
        ("--onec 7", "--onec"),
    ],
)
def test_what_is_wrong_in_a_command_in_a_sentence_is_not_left_off(sentence: str, command: str) -> None:
    found = told_commands.longest(sentence)
    assert found == command
    error = told_commands.shortcoming(found)
    assert error is not None
    assert not told_commands.lacks_something(error)


def test_what_goes_over_the_end_of_a_line_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Of a root that is gone, `batchproc storage\n  forget ROOT` knows.\n\n    batchproc status\n")
    assert list(command_lines(page)) == ["status", "storage forget ROOT"]


# -- of other programs


def test_every_line_of_the_examples_for_cron_and_systemd_is_told_of() -> None:
    assert {" ".join(shlex.split(command)[1:]) for command in commands()} <= TOLD


def test_what_bin_test_is_given_is_there_and_what_pip_is_given_too() -> None:
    """``bin/test`` itself is what CI runs; pip wants an index, so that only what it is to find there is looked for."""
    lines = {code for page in PAGES for code in code_of(page)}
    given = [shlex.split(re.split(r"\s{2,}", line)[0])[1:] for line in lines if line.startswith("bin/test ")]
    assert len(given) >= 4
    for words in given:
        assert words[0].startswith("/srv/") or (REPO / words[0]).is_dir()
        assert words[1:2] in ([], ["-k"], ["-m"])
        Expression.compile("".join(words[2:]) or "anything")
    optional = tomllib.loads((REPO / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    wanted = {shlex.split(line)[2] for line in lines if line.startswith("pip install ")}
    assert len(wanted) >= 4
    extras = {found[1] for one in wanted if (found := re.fullmatch(r"(?:\.|batchproc)\[(\w+)\]", one))}
    assert extras <= optional.keys()
    others = {re.split(r"[<>=~!\[; ]", one)[0] for extra in optional.values() for one in extra}
    assert {one for one in wanted if "[" not in one and one not in others} == {"."}
