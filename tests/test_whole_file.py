"""What is replaced as a whole, and what is written to because it is no file of this program's to replace."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from batchproc.ops.metrics.node_metrics import NodeMetrics
from batchproc.ops.metrics.textfile import Textfile
from batchproc.whole_file import write_whole


class _Nothing(CollectorRegistry):
    """No figures of others."""


def _page(path: Path) -> None:
    write_whole(path, b"a page", durable=True)


def _figures(path: Path) -> None:
    meters = NodeMetrics()
    meters.given_up("ocr", "given_up")
    Textfile(path, meters.registry, _Nothing()).write()


WRITERS = pytest.mark.parametrize("write", [_page, _figures])


@WRITERS
def test_a_link_stays_and_what_it_leads_to_is_replaced(write: Callable[[Path], None], tmp_path: Path) -> None:
    (tmp_path / "served").mkdir()
    (tmp_path / "links").mkdir()
    place, link = tmp_path / "served" / "night", tmp_path / "links" / "newest"
    link.symlink_to("../served/night")
    for _ in ("it is missing", "it is there"):
        inode = place.stat().st_ino if place.exists() else None
        write(link)
        assert link.is_symlink()
        assert not place.is_symlink()
        assert place.stat().st_size
        assert place.stat().st_ino != inode
    assert [path.name for path in place.parent.iterdir()] == ["night"]


@WRITERS
def test_a_pipe_is_written_to_and_never_waited_for(write: Callable[[Path], None], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="No such device or address"):
        write(pipe)
    with os.fdopen(os.open(pipe, os.O_RDONLY | os.O_NONBLOCK), "rb") as reader:
        write(pipe)
        assert reader.read()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert list(tmp_path.iterdir()) == [pipe]


@WRITERS
@pytest.mark.parametrize("by_link", [False, True])
def test_a_device_stays_one(write: Callable[[Path], None], by_link: bool, tmp_path: Path) -> None:
    """The other end of a pseudo terminal shows what was written, and would not if its name were a file now."""
    shown, terminal = os.openpty()
    name = Path(os.ttyname(terminal))
    link = tmp_path / "link"
    link.symlink_to(name)
    try:
        write(link if by_link else name)
        assert os.read(shown, 6)
        assert stat.S_ISCHR(name.stat().st_mode)
        assert list(tmp_path.iterdir()) == [link]
        assert link.is_symlink()
    finally:
        os.close(terminal)
        os.close(shown)


@WRITERS
def test_a_folder_or_a_link_to_itself_is_an_error_that_leaves_nothing(
    write: Callable[[Path], None], tmp_path: Path
) -> None:
    loop, folder = tmp_path / "loop", tmp_path / "folder"
    loop.symlink_to(loop)
    folder.mkdir()
    for path in (loop, folder):
        with pytest.raises(OSError, match=r"symbolic links|Is a directory"):
            write(path)
    assert sorted(tmp_path.iterdir()) == [folder, loop]


def test_a_file_keeps_its_permissions_unless_they_are_given(tmp_path: Path) -> None:
    page = tmp_path / "page"
    write_whole(page, b"1")
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(page.stat().st_mode) == 0o666 & ~mask
    page.chmod(0o640)
    write_whole(page, b"2")
    assert (page.read_bytes(), stat.S_IMODE(page.stat().st_mode)) == (b"2", 0o640)
    write_whole(page, b"3", mode=0o644)
    assert stat.S_IMODE(page.stat().st_mode) == 0o644
    with pytest.raises(FileNotFoundError):
        write_whole(tmp_path / "missing" / "page", b"4")
    assert list(tmp_path.iterdir()) == [page]
