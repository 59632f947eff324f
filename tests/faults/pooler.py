"""pgbouncer in front of a server, with Debian's settings but for addresses, users and the pool mode."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.faults.faulty_server import FaultyBench
from tests.waiting import wait_until

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")

_SETTINGS = """
[databases]
{database} = host={socket} port=5432 user=batchproc

[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {users}
pool_mode = transaction
{more}
"""


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


@contextmanager
def pgbouncer(bench: FaultyBench, more: str = "") -> Iterator[str]:
    """Runs it as the user that the server runs as, and gives the URL of the bench's database through it."""
    assert PROGRAM is not None
    place = bench.server.embedded.place
    account = place.data.stat()
    # Not in the test's own folder, which belongs to somebody else.
    folder = Path(tempfile.mkdtemp(prefix="bpb-", dir="/tmp"))
    port = _free_port()
    users = folder / "users"
    users.write_text('"batchproc" ""\n')
    conf = folder / "pgbouncer.ini"
    conf.write_text(_SETTINGS.format(database=bench.name, socket=place.sockets, port=port, users=users, more=more))
    for path in (folder, users, conf):
        os.chown(path, account.st_uid, account.st_gid)
    change = account.st_uid != os.geteuid()
    process = subprocess.Popen(
        [PROGRAM, "-q", str(conf)],
        stderr=subprocess.DEVNULL,
        user=account.st_uid if change else None,
        group=account.st_gid if change else None,
        extra_groups=[] if change else None,
    )
    try:
        wait_until(lambda: _listens(port), 10, f"pgbouncer as {pwd.getpwuid(account.st_uid).pw_name}")
        yield f"postgresql://batchproc@127.0.0.1:{port}/{bench.name}"
    finally:
        process.terminate()
        process.wait(10)
        shutil.rmtree(folder)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
