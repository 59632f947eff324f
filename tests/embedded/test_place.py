"""Where a server's things are."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest

from batchproc.core.errors import EnvironmentFault, UsageError
from batchproc.embedded import EmbeddedServer, default_home
from batchproc.embedded.place import SYSTEM_BASE, Place, check_socket_path, make_base, place_of, reporting_faults

AS_ROOT = os.geteuid() == 0


@pytest.mark.parametrize(
    ("environ", "home"),
    [
        ({"BATCHPROC_HOME": "/srv/b", "XDG_DATA_HOME": "/x", "HOME": "/h"}, "/srv/b"),
        ({"XDG_DATA_HOME": "/x", "HOME": "/h"}, "/x/batchproc"),
        ({"HOME": "/h"}, "/h/.local/share/batchproc"),
        ({"BATCHPROC_HOME": "", "XDG_DATA_HOME": "", "HOME": "/h"}, "/h/.local/share/batchproc"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/h"}, "/h/.local/share/batchproc"),
    ],
)
def test_the_home_is_what_the_environment_says(environ: dict[str, str], home: str) -> None:
    assert default_home(environ) == Path(home)


def test_a_relative_home_is_taken_from_here() -> None:
    assert default_home({"BATCHPROC_HOME": "here"}) == Path.cwd() / "here"


def test_without_a_home_in_the_environment_it_is_the_one_the_system_knows() -> None:
    known = Path(pwd.getpwuid(os.geteuid()).pw_dir)
    assert default_home({}) == default_home({"HOME": ""}) == known / ".local" / "share" / "batchproc"


def test_every_home_has_a_place_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "a")
    assert place_of(tmp_path / "a") == place_of(tmp_path / "link")
    assert place_of(tmp_path / "a").base != place_of(tmp_path / "b").base
    assert place_of(tmp_path / "a").base.is_relative_to(SYSTEM_BASE if AS_ROOT else tmp_path / "a")


def test_a_path_too_long_for_a_socket_is_refused() -> None:
    socket = len("/postgres/run/.s.PGSQL.5432")
    longest = Path("/" + "h" * (107 - socket - 1))
    check_socket_path(Place(longest, longest / "postgres"))
    longer = Path(f"{longest}h")
    with pytest.raises(UsageError, match="1 bytes too long: set BATCHPROC_HOME to a folder with a shorter path"):
        check_socket_path(Place(longer, longer / "postgres"))


def test_length_is_counted_in_bytes() -> None:
    home = Path("/" + "ü" * 60)
    with pytest.raises(UsageError, match="too long"):
        check_socket_path(Place(home, home / "postgres"))


def test_a_comma_is_refused() -> None:
    with pytest.raises(UsageError, match="comma"):
        check_socket_path(Place(Path("/a,b"), Path("/a,b/postgres")))


@pytest.mark.skipif(AS_ROOT, reason="root's servers have a short path")
def test_a_start_checks_the_path(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="too long"):
        EmbeddedServer(tmp_path / ("h" * 110)).start()


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    place = Place(tmp_path / "file", tmp_path / "file" / "postgres")
    with pytest.raises(EnvironmentFault, match=r"file.*: Not a directory: mend that"), reporting_faults(place):
        place.data.mkdir()


def test_a_url_survives_odd_paths() -> None:
    place = Place(Path("/a b&c"), Path("/a b&c/postgres"))
    server = EmbeddedServer(place.home)
    server.place = place
    assert server.url == "postgresql:///batchproc?host=/a%20b%26c/postgres/run&port=5432&user=batchproc"


def test_the_base_is_passable_for_roots_servers_only(tmp_path: Path) -> None:
    if AS_ROOT:
        pytest.skip("covered by the server's own start, below a folder of the system")
    place = place_of(tmp_path)
    make_base(place)
    assert place.base.stat().st_mode & 0o777 == 0o700
