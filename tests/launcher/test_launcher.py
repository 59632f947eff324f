"""``bin/batchproc`` makes its environment once, whole or not at all.

The launcher is the real one, in a checkout of its own. What would take a network is not: ``python3`` on its path makes
environments without pip and puts a module of that name there, which notes what it was asked for and does what the
file ``pip-does`` says.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

REPO = Path(__file__).parents[2]

PYTHON3 = """#!/bin/sh
case "$*" in
*"-m venv"*)
    for folder; do :; done
    "{python}" -I -m venv --without-pip "$folder" && cp "{stage}/pip.py" "$folder"/lib/python3*/site-packages/
    ;;
*) echo "good $0" ;;
esac
"""
PIP = """
import pathlib, sys, time
stage = pathlib.Path({stage!r})
wanted = pathlib.Path(sys.argv[sys.argv.index("-r") + 1]).read_text().split()
with (stage / "installed").open("a") as file:
    print(*wanted, file=file)
if (stage / "pip-does").read_text() == "hang":
    time.sleep(100)
if (stage / "pip-does").read_text() == "fail":
    sys.exit("ERROR: No matching distribution found for something")
pathlib.Path(sys.prefix, "bin", "tool").write_text("#!" + sys.prefix + "/bin/python")
"""
MAIN = """
import json, os, sys
print(json.dumps({"arguments": sys.argv[1:], "prefix": sys.prefix, "cwd": os.getcwd(), "path": sys.path}))
"""
PYPROJECT = """
[project]
dependencies = ["something>=1"]
[project.optional-dependencies]
test = ["checker"]
"""


class Checkout:
    """A copy of the launcher with a package that says how it was called."""

    def __init__(self, folder: Path) -> None:
        self.repo = folder / "check out"
        self.stage = folder / "stage"
        self.venv = self.repo / ".venv"
        shutil.copytree(REPO / "bin", self.repo / "bin")
        (self.repo / "batchproc").mkdir()
        (self.repo / "batchproc" / "__main__.py").write_text(MAIN)
        (self.repo / "pyproject.toml").write_text(PYPROJECT)
        (self.stage / "bin").mkdir(parents=True)
        (self.stage / "pip.py").write_text(PIP.format(stage=str(self.stage)))
        (self.stage / "installed").touch()
        python3 = self.stage / "bin" / "python3"
        python3.write_text(PYTHON3.format(python=sys.executable, stage=self.stage))
        python3.chmod(0o755)
        self.let_pip("work")
        # As cron has it: no HOME, a minimal path.
        self.environment = {"PATH": f"{self.stage / 'bin'}:/usr/bin:/bin"}

    def let_pip(self, do: str) -> None:
        (self.stage / "pip-does").write_text(do)

    @property
    def installed(self) -> list[str]:
        """What pip was asked for, a line for each call."""
        return (self.stage / "installed").read_text().splitlines()

    def start(self, *command: str | Path, **environment: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command or [self.repo / "bin" / "batchproc"],
            env={**self.environment, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd="/",
        )

    def run(self, *command: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
        process = self.start(*command, **environment)
        output, errors = process.communicate(timeout=60)
        return subprocess.CompletedProcess(process.args, process.returncode, output, errors)

    def prepare_test(self) -> subprocess.CompletedProcess[str]:
        """What bin/test does first."""
        return self.run(*self.preparing_test)

    @property
    def preparing_test(self) -> list[str]:
        return ["bash", "-c", 'source "$1" && prepare_venv test', "test", str(self.repo / "bin" / "batchproc")]

    def leftovers(self) -> list[Path]:
        return [path for path in self.repo.glob(".venv*") if path != self.venv]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


def wait_until(happened: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


def test_first_use_installs_and_the_next_does_not(checkout: Checkout, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(checkout.repo / "bin" / "batchproc")
    first = checkout.run(link, "run", "--tenant", "a b", "")
    assert first.returncode == 0, first.stderr
    called = json.loads(first.stdout)
    assert called["arguments"] == ["run", "--tenant", "a b", ""]
    assert (called["prefix"], called["cwd"]) == (str(checkout.venv), "/")
    assert first.stderr == f"batchproc: first use: installing into {checkout.venv} (a minute or two)\n"
    again = checkout.run()
    assert (again.returncode, again.stderr) == (0, "")
    assert checkout.installed == ["something>=1"]
    # Whatever pip installs as a script has to know the final folder.
    assert (checkout.venv / "bin" / "tool").read_text() == f"#!{checkout.venv}/bin/python"
    assert ".building" not in (checkout.venv / "pyvenv.cfg").read_text()
    assert checkout.leftovers() == []


def test_the_checkout_comes_before_the_users_pythonpath(checkout: Checkout) -> None:
    path = json.loads(checkout.run(PYTHONPATH="/of/mine").stdout)["path"]
    assert path[:2] == [str(checkout.repo), "/of/mine"]


def test_two_at_once_install_once(checkout: Checkout) -> None:
    processes = [checkout.start() for _ in range(3)]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0, 0, 0], outputs
    assert checkout.installed == ["something>=1"]


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_an_installation_that_is_killed_is_made_anew(checkout: Checkout, how: signal.Signals) -> None:
    checkout.let_pip("hang")
    killed = checkout.start()
    wait_until(lambda: checkout.installed)
    killed.send_signal(how)
    killed.communicate(timeout=30)
    assert not checkout.venv.exists()
    checkout.let_pip("work")
    after = checkout.run()
    assert after.returncode == 0, after.stderr
    assert checkout.leftovers() == []


def test_a_failed_installation_says_why_and_leaves_nothing(checkout: Checkout) -> None:
    checkout.let_pip("fail")
    failed = checkout.run()
    assert failed.returncode == 3
    assert "ERROR: No matching distribution found for something\nbatchproc: could not install" in failed.stderr
    assert failed.stdout == ""
    assert list(checkout.repo.glob(".venv*")) == []


def test_what_cannot_be_said_changes_no_exit_code(checkout: Checkout) -> None:
    checkout.let_pip("fail")
    failed = checkout.run("bash", "-c", '"$0" 2>/dev/full', checkout.repo / "bin" / "batchproc")
    assert failed.returncode == 3
    assert not checkout.venv.exists()


@pytest.mark.parametrize(("closed", "streams"), [("2>&-", [2]), ("<&- 2>&-", [0, 2]), ("<&- >&- 2>&-", [0, 1, 2])])
def test_a_stream_that_is_closed_is_not_the_next_file_that_is_opened(
    checkout: Checkout, tmp_path: Path, closed: str, streams: list[int]
) -> None:
    (checkout.repo / "batchproc" / "__main__.py").write_text(
        f"import os\nfound = [os.readlink(f'/proc/self/fd/{{number}}') for number in range(3)]\n"
        f"open({str(tmp_path / 'found')!r}, 'w').write(chr(10).join(found))\nos.write(2, b'written')\n"
    )
    ran = checkout.run("bash", "-c", f'"$0" {closed}', checkout.repo / "bin" / "batchproc")
    assert ran.returncode == 0, ran.stderr
    found = (tmp_path / "found").read_text().splitlines()
    assert [found[number] for number in streams] == ["/dev/null"] * len(streams)
    assert found[1].startswith("pipe:") == (1 not in streams)


def test_a_changed_project_is_installed_afresh(checkout: Checkout) -> None:
    checkout.run()
    (checkout.venv / "old").touch()
    (checkout.repo / "pyproject.toml").write_text(PYPROJECT.replace(">=1", ">=2"))
    changed = checkout.run()
    assert changed.returncode == 0
    assert "installing afresh" in changed.stderr
    assert checkout.installed == ["something>=1", "something>=2"]
    assert not (checkout.venv / "old").exists()
    assert checkout.leftovers() == []


def test_a_failure_to_install_afresh_keeps_what_there_is(checkout: Checkout) -> None:
    checkout.run()
    (checkout.repo / "pyproject.toml").write_text(PYPROJECT.replace(">=1", ">=2"))
    checkout.let_pip("fail")
    assert checkout.run().returncode == 3
    (checkout.repo / "pyproject.toml").write_text(PYPROJECT)
    assert checkout.run().returncode == 0


def test_what_tests_need_is_added(checkout: Checkout) -> None:
    checkout.run()
    (checkout.venv / "kept").touch()
    added = checkout.prepare_test()
    assert added.returncode == 0, added.stderr
    assert "adding what 'test' needs" in added.stderr
    assert checkout.installed == ["something>=1", "something>=1 checker"]
    assert (checkout.venv / "kept").exists()
    assert checkout.prepare_test().stderr == ""
    assert checkout.run().stderr == ""


def test_an_addition_that_is_killed_is_not_trusted(checkout: Checkout) -> None:
    checkout.run()
    checkout.let_pip("hang")
    killed = checkout.start(*checkout.preparing_test)
    wait_until(lambda: len(checkout.installed) == 2)
    killed.kill()
    killed.communicate()
    assert checkout.run().stderr == ""  # what runs needs was not touched
    checkout.let_pip("work")
    assert "installing afresh" in checkout.prepare_test().stderr


def test_an_interpreter_that_went_is_replaced(checkout: Checkout) -> None:
    checkout.run()
    python = checkout.venv / "bin" / "python"
    python.unlink()
    python.symlink_to("/nonexistent/python3")
    assert checkout.run().returncode == 0
    assert len(checkout.installed) == 2


@pytest.mark.parametrize(
    ("found", "advice"),
    [
        ("bare 3.12", "Python 3.12 lacks the venv module: apt-get install python3-venv"),
        ("old 3.9", "needs Python 3.11 or newer (found 3.9)"),
    ],
)
def test_a_python_that_will_not_do_is_explained(checkout: Checkout, found: str, advice: str) -> None:
    for name in ("python3", "python3.11", "python3.12", "python3.13", "python3.14"):
        python = checkout.stage / "bin" / name
        python.write_text(f"#!/bin/sh\necho '{found}'\n")
        python.chmod(0o755)
    launcher = checkout.repo / "bin" / "batchproc"
    # The system's own, which is tried last, may well do.
    launcher.write_text(launcher.read_text().replace(" /usr/bin/python3;", ";"))
    refused = checkout.run()
    assert refused.returncode == 3
    assert advice in refused.stderr
    assert not checkout.venv.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write everywhere")
def test_a_checkout_that_cannot_be_written_installs_into_the_users_folder(checkout: Checkout, tmp_path: Path) -> None:
    mode = stat.S_IMODE(checkout.repo.stat().st_mode)
    checkout.repo.chmod(0o555)
    try:
        assert "set BATCHPROC_HOME" in checkout.run().stderr
        made = checkout.run(BATCHPROC_HOME=str(tmp_path / "home"))
        assert json.loads(made.stdout)["prefix"] == str(tmp_path / "home" / "venv")
        assert str(tmp_path / "home" / "venv") in made.stderr
    finally:
        checkout.repo.chmod(mode)
