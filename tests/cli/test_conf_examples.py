"""The examples for cron, systemd and logrotate: what they start is there, and the programs that read them agree."""

from __future__ import annotations

import configparser
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from batchproc.cli import main
from batchproc.packaged import packaged_conf
from batchproc.settings import Settings
from tests.cli.documentation import README
from tests.engine.running import Bench, bench_on
from tests.faults.command import started_run
from tests.waiting import wait_until

CONF = packaged_conf()
REPO = Path(__file__).parents[2]
PROGRAM = "/opt/batchproc/bin/batchproc"
UNITS = sorted((CONF / "systemd").iterdir())
FIELDS = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


@pytest.fixture
def bench(database_url: str) -> Iterator[Bench]:
    made = bench_on(database_url)
    yield made
    made.connection.close()


def cron_lines() -> list[str]:
    text = (CONF / "cron" / "batchproc").read_text("utf-8")
    return [line for line in text.splitlines() if line and not line.startswith("#") and "=" not in line.split()[0]]


def unit(path: Path) -> configparser.ConfigParser:
    parsed = configparser.ConfigParser(interpolation=None, strict=True)
    parsed.optionxform = str  # type: ignore[assignment, method-assign]  # names are spelled as they are
    parsed.read_string(path.read_text("utf-8"))
    return parsed


def commands() -> list[str]:
    """Every command line of ours that an example starts, or would when a line is no comment."""
    found = [line.split(maxsplit=6)[6] for line in cron_lines()]
    for path in UNITS:
        found += re.findall(r"^#?Exec\w+=(/opt/.*)$", path.read_text("utf-8"), re.MULTILINE)
    return found


@pytest.mark.parametrize("command", commands())
def test_every_command_can_be_parsed(command: str) -> None:
    program, *words = shlex.split(command)
    assert program == PROGRAM
    with click.Context(main.cli, **main.cli.context_settings) as context:
        name, found, rest = main.cli.resolve_command(context, words)
        while isinstance(found, click.Group):
            name, found, rest = found.resolve_command(context, rest)
        assert found is not None
        found.make_context(name, list(rest), parent=context).close()


def test_there_are_commands_of_each() -> None:
    assert len(cron_lines()) == 3
    assert len([command for command in commands() if " run " in command]) == 4


@pytest.mark.parametrize("line", cron_lines())
def test_a_crontab_line_has_five_fields_and_a_user(line: str) -> None:
    *fields, user, command = line.split(maxsplit=6)
    assert (user, len(fields)) == ("batchproc", 5)
    for field, (least, most) in zip(fields, FIELDS, strict=True):
        assert re.fullmatch(r"(\*|\d+(-\d+)?)(/\d+)?", field)
        assert all(least <= int(number) <= most for number in re.findall(r"\d+", field.split("/")[0]))
    assert "%" not in command, "cron makes a line's end of it"


def test_the_file_of_cron_ends_as_cron_wants_it() -> None:
    """crontab(5): a last line without a newline is broken; names with a dot are ignored in /etc/cron.d."""
    path = CONF / "cron" / "batchproc"
    assert path.read_bytes().endswith(b"\n")
    assert "." not in path.name


def nights() -> list[str]:
    """Every line that begins a night: of the examples, and of the documentation."""
    pages = [REPO / "README.md", *sorted((REPO / "batchproc" / "docs").glob("*.md"))]
    text = "\n".join([*commands(), *(page.read_text("utf-8") for page in pages)])
    return sorted(set(re.findall(r"(?:^    |bin/)(?:[\d* ]*)batchproc (run --until \d\d:\d\d.*)$", text, re.MULTILINE)))


@pytest.mark.long
def test_the_examples_go_beside_each_other(bench: Bench) -> None:
    """Whoever installs all of them, or takes a line of the documentation, has none that does nothing for another."""
    [service] = [
        command
        for path in UNITS
        if path.name == "batchproc.service"
        for command in re.findall(r"^ExecStart=(.*)$", path.read_text("utf-8"), re.MULTILINE)
    ]
    by_day = [line.split(maxsplit=6)[6] for line in cron_lines() if "--lane interactive" in line]
    assert by_day
    assert len(nights()) >= 2
    with started_run(bench, *shlex.split(service)[2:], "--workers", "1") as first:
        wait_until(lambda: bench.rows("select from batchproc.runs"), 30, "the service works")
        for command in [*nights(), *(line.removeprefix(f"{PROGRAM} ") for line in by_day)]:
            with started_run(bench, *shlex.split(command)[1:], "--workers", "1") as other:
                assert (other.wait(40), command, *other.output()) == (0, command, "", "")
        assert first.stop() == 0


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_a_unit_has_no_key_twice_and_its_sections(path: Path) -> None:
    parsed = unit(path)
    assert "Description" in parsed["Unit"]
    assert set(parsed.sections()) <= {"Unit", "Service", "Timer", "Install"}


@pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".service"], ids=lambda path: path.name)
def test_a_stop_lets_running_jobs_end(path: Path) -> None:
    service = unit(path)["Service"]
    assert service["KillMode"] == "mixed"
    assert float(service["TimeoutStopSec"].removesuffix("s")) > 2 * Settings().pool.shutdown_grace


def test_the_service_has_time_to_start_and_is_watched_no_more_closely_than_it_can_bear() -> None:
    service = unit(CONF / "systemd" / "batchproc.service")["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "all")
    assert service["TimeoutStartSec"] == "15min"
    assert Settings().database.outage_limit < 15 * 60
    assert service["WatchdogSec"] == "2min"
    assert 2 * Settings().dispatch.lease < 120
    assert service["ExecReload"].split() == ["/bin/kill", "-HUP", "$MAINPID"]


def test_the_watch_of_folders_waits_for_their_storage_and_has_time_for_a_large_file() -> None:
    watch = unit(CONF / "systemd" / "batchproc-watch.service")
    service = watch["Service"]
    assert (service["Type"], service["NotifyAccess"]) == ("notify", "all")
    words = shlex.split(service["ExecStart"])
    assert words[:2] == [PROGRAM, "import"]
    assert "--watch" in words
    assert watch["Unit"]["RequiresMountsFor"] in words
    assert service["TimeoutStartSec"] == "15min"
    assert service["WatchdogSec"] == "10min"


def test_documents_that_failed_make_no_failed_unit_of_a_night_or_a_service() -> None:
    for name in ("batchproc-night", "batchproc"):
        assert unit(CONF / "systemd" / f"{name}.service")["Service"]["SuccessExitStatus"] == "1"


@pytest.mark.parametrize(
    "path", [CONF / "cron" / "batchproc", CONF / "systemd" / "batchproc-night.service", README], ids=lambda p: p.name
)
def test_who_runs_it_by_night_is_told_where_settings_and_handlers_come_from(path: Path) -> None:
    """Without them a run passes over every job whose handler it does not know."""
    text = path.read_text("utf-8")
    told = text.split("\n## Every night\n")[1].split("\n## ")[0] if path == README else text
    for name in ("BATCHPROC_CONF", "PYTHONPATH"):
        [line] = re.findall(rf"^ *#?(?:Environment=)?{name}=(\S+)$", told, re.MULTILINE)
        assert line.startswith("/"), "cron makes all of the line the value"


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_systemd_takes_the_units(tmp_path: Path) -> None:
    """With paths and a user of this machine, which it looks for."""
    program = tmp_path / "batchproc"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    for path in UNITS:
        text = path.read_text("utf-8").replace(PROGRAM, str(program)).replace("User=batchproc", "User=root")
        (tmp_path / path.name).write_text(re.sub(r"^#(Exec|ReadOnly)", r"\1", text, flags=re.MULTILINE))
    units = [str(tmp_path / path.name) for path in UNITS]
    verified = subprocess.run(["systemd-analyze", "verify", "--man=no", *units], capture_output=True, text=True)
    about_ours = [line for line in verified.stderr.splitlines() if "batchproc" in line or str(tmp_path) in line]
    assert about_ours == []
    assert verified.returncode == 0, verified.stderr


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd-analyze is not installed here")
def test_systemd_knows_when_the_night_begins() -> None:
    when = unit(CONF / "systemd" / "batchproc-night.timer")["Timer"]["OnCalendar"]
    found = subprocess.run(["systemd-analyze", "calendar", when], capture_output=True, text=True, check=True)
    assert "22:00:00" in found.stdout


def test_the_example_of_logrotate_leaves_the_file_to_whoever_writes_it() -> None:
    text = (CONF / "logrotate" / "batchproc").read_text("utf-8")
    body = re.search(r"^(/\S+) \{\n(.*)^\}$", text, re.DOTALL | re.MULTILINE)
    assert body is not None
    directives = [line.split() for line in body.group(2).splitlines()]
    names = [words[0] for words in directives]
    assert "nocreate" in names
    assert not {"copytruncate", "create", "postrotate"} & set(names)
    assert len(set(names)) == len(names)


@pytest.mark.skipif(shutil.which("logrotate") is None, reason="logrotate is not installed here")
def test_logrotate_takes_the_example(tmp_path: Path) -> None:
    text = (CONF / "logrotate" / "batchproc").read_text("utf-8").replace("su batchproc batchproc", "su root root")
    (tmp_path / "example").write_text(text.replace("/var/log/batchproc", str(tmp_path)))
    checked = subprocess.run(
        ["logrotate", "-d", "-s", str(tmp_path / "state"), str(tmp_path / "example")], capture_output=True, text=True
    )
    assert (checked.returncode, "error" in checked.stderr) == (0, False), checked.stderr
