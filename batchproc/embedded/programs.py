"""Running PostgreSQL's programs: making a data folder, and launching a server that outlives us."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from batchproc.core.errors import EnvironmentFault
from batchproc.embedded.place import MAJOR_VERSION, PORT, Account, Place, current_account
from batchproc.embedded.running import Circumstances, run_to_end

DATABASE = "batchproc"
ROLE = "batchproc"

# Written to postgresql.conf when the folder is made; an operator may tune them there.
_SETTINGS = {
    "max_connections": "200",  # two for each of 64 slots, the nodes' own, and room for people
    "shared_buffers": "128MB",
    "fsync": "on",
    "synchronous_commit": "on",
    "autovacuum": "on",
    "random_page_cost": "1.1",
    "log_checkpoints": "off",
    "log_line_prefix": "%m [%p] %q%u@%d %a ",
    "cluster_name": "batchproc",
}
_MAKING_SECONDS = 300.0  # for each program that makes the folder; it takes some seconds
_TAIL = 15  # lines of a log or of an error that are shown


@dataclass(frozen=True, slots=True)
class Programs:
    """How to run the programs of one place.

    Args:
        software: the installation they come from.
        account: the user they run as.
        lock: the descriptor of the place's lock, which all of them inherit. So it is held as long as one of them
            lives, also when their parent was killed, and the next start can wait for that.
    """

    place: Place
    software: Path
    account: Account
    lock: int

    def initialise(self) -> None:
        """Makes the data folder with an empty database, beside its place, and moves it there when complete.

        Raises:
            EnvironmentFault: a program did not end, or failed; the message then ends with what it wrote.
        """
        logger.info("making a PostgreSQL {} database in {}", MAJOR_VERSION, self.place.base)
        making = self.place.base / "data.making"
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(mode=0o700)
        os.chown(making, self.account.uid, self.account.gid)
        locale = ["--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"]
        settings = [f"--set={name}={value}" for name, value in _SETTINGS.items()]
        self._run(["initdb", f"--pgdata={making}", f"--username={ROLE}", "--auth=reject", *locale, *settings])
        complaints = self._run(["postgres", "--single", "-D", str(making), "postgres"], f"CREATE DATABASE {DATABASE}\n")
        if "ERROR:" in complaints:  # in single-user mode the exit code is 0 all the same
            raise EnvironmentFault(f"cannot make the database in {making}: {complaints}", "mend that and start again")
        making.rename(self.place.data)

    def launch(self) -> None:
        """Starts a server on the data folder and returns at once; whether it comes up is for the caller to watch."""
        self._write_access_files()
        enforced = {
            "listen_addresses": "",
            "port": str(PORT),
            "unix_socket_directories": str(self.place.sockets),
            "unix_socket_permissions": "0700",
            "hba_file": str(self.place.hba),
            "ident_file": str(self.place.ident),
        }
        options = [part for name, value in enforced.items() for part in ("-c", f"{name}={value}")]
        server = [str(self.software / "bin" / "postgres"), "-D", str(self.place.data), *options]
        with self.place.log.open("ab") as log:
            self.place.log.chmod(0o600)
            # setsid --fork ends at once: the server gets a session of its own, and init for its parent.
            subprocess.run(  # noqa: S603
                ["setsid", "--fork", *server],  # noqa: S607
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                check=True,
                **self._circumstances(),
            )

    def _write_access_files(self) -> None:
        allowed = {self.account.name, current_account().name}
        mapped = [f'batchproc "{name}" {ROLE}' for name in sorted(allowed)]
        for file, lines in ((self.place.hba, ["local all all peer map=batchproc"]), (self.place.ident, mapped)):
            file.write_text("\n".join(["# Written at each start.", *lines, ""]))
            file.chmod(0o644)  # whatever the umask

    def _run(self, command: Sequence[str], text: str = "") -> str:
        """Runs a program to its end and returns what it wrote on stderr."""
        program, *arguments = command
        result = run_to_end(
            [str(self.software / "bin" / program), *arguments],
            text,
            timeout=_MAKING_SECONDS,
            **self._circumstances(),
        )
        if result.returncode != 0:
            raise EnvironmentFault(
                f"{program} failed in {self.place.base}: {tail(result.stderr)}",
                "mend that and start again; nothing half made was kept",
            )
        return result.stderr

    def _circumstances(self) -> Circumstances:
        change = self.account.uid != os.geteuid()
        # Nothing else of the caller's: no PG* variable, no library path, no mark to find a worker's children by.
        zone = os.environ.get("TZ")
        return {
            "cwd": self.place.base,
            "env": {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": "C", **({"TZ": zone} if zone else {})},
            "umask": 0o077,
            "pass_fds": [self.lock],
            "user": self.account.uid if change else None,
            "group": self.account.gid if change else None,
            "extra_groups": [] if change else None,
        }


def tail(text: str) -> str:
    """The last lines of a log."""
    return "\n".join(text.strip().splitlines()[-_TAIL:])
