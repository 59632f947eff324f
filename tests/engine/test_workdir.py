"""The node's temp folder."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from batchproc.engine.workdir import node_folder


@pytest.fixture(autouse=True)
def temp_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_it_is_private_and_goes_with_the_node(temp_folder: Path) -> None:
    with node_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        (folder / "worker").mkdir()
    assert list(temp_folder.iterdir()) == []


def test_what_a_killed_node_left_is_removed_and_a_living_nodes_folder_is_not(temp_folder: Path) -> None:
    left = temp_folder / "batchproc-node-left"
    (left / "worker").mkdir(parents=True)
    elsewhere = temp_folder / "elsewhere"
    elsewhere.mkdir()
    (temp_folder / "batchproc-node-link").symlink_to(elsewhere)
    with node_folder() as living:
        assert not left.exists()
        with node_folder() as other:
            assert living.exists()
            assert other != living
    assert elsewhere.exists()
