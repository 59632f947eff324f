"""``kinds list`` and ``kinds set``: what is paused and why, and what takes it back."""

from __future__ import annotations

from pathlib import Path
from uuid import uuid4

import pytest

from batchproc.core.brake import Braked
from batchproc.core.job import KindSpec
from batchproc.database import connect
from batchproc.queue.kind_store import KindStore
from batchproc.queue.node_store import NodeFacts, NodeStore
from tests.cli.test_commands import Command
from tests.cli.test_commands import batchproc as batchproc

KEYS = [
    "kind",
    "paused",
    "paused_code",
    "paused_reason",
    "paused_at",
    "max_running",
    "declared_limit",
    "rate",
    "burst",
    "declared_rate",
    "declared_burst",
    "available",
    "scheduled",
    "running",
]


@pytest.fixture
def known(batchproc: Command, database_url: str) -> Command:
    """A database whose kinds are known, with two jobs that wait."""
    with connect(database_url) as connection:
        connection.execute(b"insert into batchproc.kinds (kind) values ('t_echo'), ('t_quick')")
    batchproc("tenants", "add", "acme")
    batchproc("enqueue", "t_quick", "--tenant", "acme")
    batchproc("enqueue", "t_quick", "--tenant", "acme", "--at", "2999-01-01T00:00")
    batchproc("enqueue", "t_nobodys", "--tenant", "acme", "--force")
    return batchproc


def test_kinds_are_listed_with_their_jobs(known: Command) -> None:
    listed = known("kinds", "list", "--json").json

    assert listed["next"] is None
    assert {tuple(kind) for kind in listed["kinds"]} == {(*KEYS, "handler", "options")}
    counted = {kind["kind"]: (kind["available"], kind["scheduled"], kind["running"]) for kind in listed["kinds"]}
    assert list(counted) == sorted(counted)
    assert {kind: jobs for kind, jobs in counted.items() if any(jobs)} == {"t_nobodys": (1, 0, 0), "t_quick": (1, 1, 0)}
    assert counted["ocr"] == (0, 0, 0), "its handler is known before any run"
    assert "t_quick" in known("kinds", "list").out


def test_a_listing_names_handlers_and_fits_a_terminal(known: Command) -> None:
    known("kinds", "set", "t_quick", "--limit", "3")
    rows = {line.split()[0]: line.split() for line in known("kinds", "list").out.splitlines()}
    assert rows["t_quick"] == ["t_quick", "600", "s", "3*", "-", "2", "0", "-", "tests.engine.job_handlers.quick"]
    assert rows["t_nobodys"] == ["t_nobodys", "-", "-", "-", "1", "0", "-", "-"]


def test_a_kind_is_shown_with_where_each_option_comes_from(known: Command, tmp_path: Path) -> None:
    conf = tmp_path / "more.yaml"
    conf.write_text("handlers: [tests.engine.job_handlers]\nkinds: {t_crash: {timeout: 5m, rate: 10/s}}\n")
    with_more = ("--conf", str(conf))
    known("kinds", "set", "t_quick", "--rate", "1/s", "--burst", "4")

    crash = known(*with_more, "kinds", "show", "t_crash", "--json").json

    told = {name: (option["value"], option["from"]) for name, option in crash["options"].items()}
    assert told["timeout"] == (300, "settings, kinds")
    assert told["rate"] == (10, "settings, kinds")
    assert told["max_crashes"] == (2, "handler")
    assert told["max_attempts"] == (5, "settings, retry")
    assert told["bundle"] == (1, "default")
    assert crash["handler"] == "tests.engine.job_handlers.crash"
    quick = known(*with_more, "kinds", "show", "t_quick", "--json").json["options"]
    assert (quick["rate"], quick["burst"]) == ({"value": 1, "from": "kinds set"}, {"value": 4, "from": "kinds set"})
    declared = known("kinds", "show", "t_declared")
    assert "failure_codes: no_luck" in declared.out
    assert known("kinds", "show", "nobodys").code == 2
    assert "no handler of it is known here" in known("kinds", "show", "t_nobodys").out


def test_what_is_paused_is_listed_where_a_handler_cannot_be_imported(known: Command, tmp_path: Path) -> None:
    known("kinds", "set", "t_quick", "--pause", "--reason", "a broken release")
    conf = tmp_path / "broken.yaml"
    conf.write_text("handlers: [tests.faults.failing_import_of_nothing]\n")
    listed = known("--conf", str(conf), "kinds", "list")
    assert (listed.code, "a broken release" in listed.out) == (0, True)
    assert "the handler module tests.faults.failing_import_of_nothing cannot be imported" in listed.err


def test_a_kind_is_paused_with_a_reason_and_resumed(known: Command) -> None:
    paused = known("kinds", "set", "t_quick", "--pause", "--reason", "until Monday", "--json").json
    assert (paused["paused"], paused["paused_code"], paused["paused_reason"]) == (True, None, "until Monday")
    assert paused["paused_at"] is not None
    assert list(paused) == KEYS
    assert "until Monday" in known("kinds", "list").out

    resumed = known("kinds", "set", "t_quick", "--resume", "--json").json

    assert {key: resumed[key] for key in KEYS[1:5]} == {
        "paused": False,
        "paused_code": None,
        "paused_reason": None,
        "paused_at": None,
    }


def test_what_a_brake_paused_is_shown_and_a_limit_does_not_touch_it(known: Command, database_url: str) -> None:
    with connect(database_url) as connection:
        KindStore("batchproc").brake(connection, Braked("t_quick", "poison", "20 jobs in a row ended with poison"))
        KindStore("batchproc").brake(connection, Braked("t_quick", "no_space", "again"))

    limited = known("kinds", "set", "t_quick", "--limit", "3", "--json").json

    assert (limited["paused_code"], limited["paused_reason"]) == ("poison", "20 jobs in a row ended with poison")
    assert limited["max_running"] == 3
    assert known("kinds", "set", "t_quick", "--limit", "none", "--json").json["max_running"] is None
    assert "20 jobs in a row ended with poison" in known("kinds", "list").out


def test_a_limit_by_a_person_goes_before_a_declared_one_and_none_goes_back_to_it(
    known: Command, database_url: str
) -> None:
    def limits(*arguments: str) -> tuple[int | None, int | None]:
        changed = known("kinds", "set", "t_quick", *arguments, "--json").json
        return changed["max_running"], changed["declared_limit"]

    def node_starts(declared: int) -> None:
        spec = KindSpec("t_quick", limit=declared)
        node = NodeStore("batchproc", uuid4(), {"t_quick": spec})
        facts = NodeFacts(node.node_id, "host", 1, 1, ("t_quick",), (), "", "")
        with connect(database_url) as connection:
            node.join(connection, facts, 30.0)
            node.leave(connection)

    node_starts(declared=8)
    assert limits("--limit", "3") == (3, 8)
    node_starts(declared=9)
    [listed] = [kind for kind in known("kinds", "list", "--json").json["kinds"] if kind["kind"] == "t_quick"]
    assert (listed["max_running"], listed["declared_limit"]) == (3, 9)
    assert limits("--limit", "0") == (0, 9)
    assert limits("--limit", "none") == (None, 9)


def test_a_rate_by_a_person_is_shown_and_taken_back(known: Command) -> None:
    changed = known("kinds", "set", "t_quick", "--rate", "600/m", "--burst", "20", "--json").json
    assert (changed["rate"], changed["burst"], changed["declared_rate"]) == (10.0, 20, None)
    assert "10/s, burst 20" in known("kinds", "list").out
    limited = known("kinds", "set", "t_quick", "--limit", "3", "--json").json
    assert (limited["rate"], limited["burst"]) == (10.0, 20)
    assert "30/m" in known("kinds", "set", "t_quick", "--rate", "0.5/s").out
    taken_back = known("kinds", "set", "t_quick", "--rate", "none", "--json").json
    assert (taken_back["rate"], taken_back["burst"], taken_back["max_running"]) == (None, None, 3)


def test_a_person_reads_what_a_change_changed_and_nothing_else(known: Command) -> None:
    def told(*arguments: str) -> list[str]:
        return [" ".join(line.split()) for line in known("kinds", "set", "t_quick", *arguments).out.splitlines()]

    assert told("--pause", "--reason", "until Monday") == [
        "kind t_quick",
        "paused yes (before: no)",
        "paused_reason until Monday (before: -)",
    ]
    assert told("--limit", "8", "--rate", "600/m", "--burst", "20") == [
        "kind t_quick",
        "max_running 8 (before: -)",
        "rate 10/s, burst 20 (before: -)",
    ]
    assert told("--limit", "8") == ["kind t_quick", "as it was before"]
    assert told("--unlimited") == ["kind t_quick", "max_running - (before: 8)"]
    assert told("--unlimited", "--resume") == [
        "kind t_quick",
        "paused no (before: yes)",
        "paused_reason - (before: until Monday)",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["t_quick", "--unlimited", "--limit", "3"], "--unlimited and --limit exclude each other"),
        (["t_nobodys", "--pause"], "there is no kind 't_nobodys': see: batchproc kinds list"),
        (["t_quick", "--pause", "--resume"], "--pause and --resume exclude each other"),
        (["t_quick", "--reason", "why"], "--reason tells why a kind is paused: give it together with --pause"),
        (["t_quick"], "nothing was asked for: give --pause, --resume, --limit, --unlimited or --rate"),
        (["t_quick", "--limit", "many"], "--limit must be a number of jobs, or none"),
        (["t_quick", "--limit", "-1"], "--limit must be a number of jobs, or none"),
        (["t_quick", "--rate", "fast"], "--rate must be jobs per time such as 10/s, 600/m, 1000/h or 50/d, or none"),
        (["t_quick", "--rate", "0.001/d"], "--rate must be one a day at least, such as 1/d or 10/s, or none"),
        (["t_quick", "--rate", "none", "--burst", "3"], "--burst belongs to a rate: give it together with --rate"),
    ],
)
def test_what_cannot_be_set_is_one_clear_line(known: Command, arguments: list[str], message: str) -> None:
    ran = known("kinds", "set", *arguments)

    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err


def test_a_kind_is_forgotten_that_nobody_has_any_more(known: Command, database_url: str) -> None:
    def told() -> tuple[int, str]:
        ran = known("kinds", "forget", "t_past")
        return ran.code, (ran.out or ran.err).removeprefix("batchproc: ")

    assert told() == (2, "there is no kind 't_past': see: batchproc kinds list; a kind is known when its handler is in"
                         " the settings\n")  # fmt: skip
    with connect(database_url) as connection:
        connection.execute(b"insert into batchproc.kinds (kind) values ('t_past')")
        node = NodeStore("batchproc", uuid4(), {"t_past": KindSpec("t_past")})
        node.join(connection, NodeFacts(node.node_id, "host", 1, 2, ("t_past",), ("eng",), "5.5", "0.1"), 30.0)
        code, text = told()
        assert (code, text.split(":")[0]) == (2, "a node that runs knows kind t_past")
        node.leave(connection)
        known("enqueue", "t_past", "--tenant", "acme", "--force")
        connection.execute(
            b"update batchproc.processing_jobs set state = 'completed', finished_at = now() where kind = 't_past'"
        )
        code, text = told()
        assert (code, text.split(":")[0]) == (2, "jobs are of kind t_past")
        assert "t_past" in known("kinds", "list").out
        connection.execute(b"delete from batchproc.processing_jobs where kind = 't_past'")
    assert told() == (0, "kind t_past is forgotten\n")
    assert "t_past" not in known("kinds", "list").out
    here = known("kinds", "forget", "ocr")
    assert (here.code, "these settings have a handler of kind ocr" in here.err) == (2, True)


def test_a_kind_that_no_run_has_had_is_set_by_its_handler(known: Command, tmp_path: Path) -> None:
    conf = tmp_path / "more.yaml"
    conf.write_text("handlers: [tests.engine.job_handlers]\nkinds: {t_crash: {limit: 4, rate: 10/s}}\n")
    changed = known("--conf", str(conf), "kinds", "set", "t_crash", "--rate", "1/h", "--json").json
    assert list(changed) == KEYS
    assert (changed["rate"], changed["burst"], changed["max_running"], changed["paused"]) == (
        1 / 3600,
        None,
        None,
        False,
    )
    assert (changed["declared_limit"], changed["declared_rate"]) == (4, 10.0), "they hold before its first run, too"

    paused = known("kinds", "set", "t_lazy", "--pause", "--reason", "not yet", "--limit", "0", "--json").json
    assert (paused["paused"], paused["paused_code"], paused["paused_reason"]) == (True, None, "not yet")
    assert (paused["paused_at"] is not None, paused["max_running"]) == (True, 0)
    assert known("kinds", "set", "t_declared", "--unlimited").out.split() == [
        "kind",
        "t_declared",
        "as",
        "it",
        "was",
        "before",
    ]


def test_a_kind_that_was_forgotten_while_its_node_joined_can_be_set_and_paused(
    known: Command, database_url: str
) -> None:
    with connect(database_url) as connection:
        node = NodeStore("batchproc", uuid4(), {"t_past": KindSpec("t_past")})
        node.join(connection, NodeFacts(node.node_id, "host", 1, 2, ("t_past",), ("eng",), "5.5", "0.1"), 30.0)
        connection.execute(b"delete from batchproc.kinds where kind = 't_past'")
        assert known("kinds", "set", "t_past", "--limit", "2", "--json").json["max_running"] == 2
        connection.execute(b"delete from batchproc.kinds where kind = 't_past'")
        KindStore("batchproc").brake(connection, Braked("t_past", "poison", "20 jobs in a row ended with poison"))
        [braked] = KindStore("batchproc").kinds(connection, "t_past")
        assert (braked["paused"], braked["paused_code"]) == (True, "poison")
        assert (braked["paused_reason"], braked["paused_at"] is None) == ("20 jobs in a row ended with poison", False)
        connection.execute(b"delete from batchproc.kinds where kind = 't_past'")
        node.leave(connection)
    gone = known("kinds", "set", "t_past", "--limit", "2")
    assert (gone.code, "there is no kind 't_past'" in gone.err) == (2, True)


def test_a_brake_does_not_wait_for_the_row_of_a_kind_that_is_paused(known: Command, database_url: str) -> None:
    known("kinds", "set", "t_quick", "--pause", "--reason", "until Monday")
    with connect(database_url) as holding, connect(database_url) as connection, holding.transaction():
        holding.execute(b"select from batchproc.kinds where kind = 't_quick' for update")
        KindStore("batchproc").brake(connection, Braked("t_quick", "poison", "why"))
    [row] = [kind for kind in known("kinds", "list", "--json").json["kinds"] if kind["kind"] == "t_quick"]
    assert (row["paused_code"], row["paused_reason"]) == (None, "until Monday")


def test_what_cannot_be_stored_of_a_reason_is_left_out(known: Command) -> None:
    paused = known("kinds", "set", "t_quick", "--pause", "--reason", "half a \ud800 pair" + "x" * 600, "--json").json

    assert paused["paused_reason"].startswith("half a  pairxxx")
    assert len(paused["paused_reason"]) == 500
    assert known("kinds", "set", "\udcff", "--pause").code == 2
