"""A server of the tests' own, and an ordinary user to try things as."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from batchproc.embedded import EmbeddedServer
from tests.database import new_home, remove_server

REPO = Path(__file__).parents[2]


@dataclass(frozen=True)
class OrdinaryUser:
    """Runs Python as somebody who is not root."""

    uid: int
    gid: int
    python: str
    environment: Mapping[str, str]

    def run(self, command: list[str], **environment: str) -> subprocess.CompletedProcess[str]:
        change = self.uid != os.geteuid()
        return subprocess.run(
            command,
            env={**self.environment, **environment},
            cwd="/",
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            user=self.uid if change else None,
            group=self.gid if change else None,
            extra_groups=[] if change else None,
        )


@pytest.fixture(scope="session")
def ordinary_user() -> OrdinaryUser:
    """This user, or nobody when this is root; skips where nobody cannot reach a Python with the dependencies."""
    path = os.pathsep.join([str(REPO), *(entry for entry in sys.path if entry.endswith("site-packages"))])
    environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"}
    entry = pwd.getpwnam("nobody") if os.geteuid() == 0 else pwd.getpwuid(os.geteuid())
    system_python = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    for python in (sys.executable, system_python):
        user = OrdinaryUser(entry.pw_uid, entry.pw_gid, python, environment)
        try:
            if user.run([python, "-c", "import psycopg, batchproc.embedded"]).returncode == 0:
                return user
        except OSError:
            continue
    pytest.skip(f"no Python with the dependencies within reach of {entry.pw_name}")


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty home folder, removed with its server."""
    home = new_home()
    yield home
    remove_server(EmbeddedServer(home))


@pytest.fixture(scope="module")
def shared_server() -> Iterator[EmbeddedServer]:
    """One server for the tests that leave it as it was; they start it themselves."""
    server = EmbeddedServer(new_home())
    yield server
    remove_server(server)


@pytest.fixture
def free_home(ordinary_user: OrdinaryUser) -> Iterator[Path]:
    """A home folder that belongs to the ordinary user."""
    home = new_home()
    os.chown(home, ordinary_user.uid, ordinary_user.gid)
    yield home
    script = "import sys; from pathlib import Path; from batchproc.embedded import EmbeddedServer;"
    ordinary_user.run([ordinary_user.python, "-c", script + "EmbeddedServer(Path(sys.argv[1])).stop()", str(home)])
    shutil.rmtree(home)
