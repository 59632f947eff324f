"""What one word on the command line stands for: stale data, stale rules, older versions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from batchproc.core.errors import UsageError
from batchproc.database import connect
from batchproc.ocr.tessdata import Tessdata
from batchproc.ops.selecting import data_beginning, data_out_of_date, rules_now
from batchproc.queue.store import JobStore
from batchproc.settings import Settings
from tests.handlers.running_job import Conn, add_document, add_tenant, add_text

JOBS = JobStore("batchproc")
RULES = """
version: 1
rules:
  - name: {name}
    match: word
    tags: x
"""


@pytest.fixture
def connection(database_url: str) -> Iterator[Conn]:
    with connect(database_url) as opened:
        yield opened


def read_by(connection: Conn, data_hash: str, languages: list[str]) -> None:
    tenant = add_tenant(connection)
    document = add_document(connection, tenant, content=f"{data_hash} {languages}".encode())
    revision = add_text(connection, tenant, document, ["text"])
    connection.execute(
        "update batchproc.ocr_revisions set data_hash = %s, languages = %s where revision_id = %s",
        [data_hash, languages, revision],
    )


def test_data_is_out_of_date_that_is_not_the_data_of_today(connection: Conn, tmp_path: Path) -> None:
    for language in ("eng", "deu"):
        (tmp_path / f"{language}.traineddata").write_text(language)
    settings = Settings.model_validate({"ocr": {"tessdata": [str(tmp_path)]}})
    now = Tessdata([tmp_path])
    read_by(connection, now.hash_of(["eng"]), ["eng"])
    read_by(connection, now.hash_of(["deu", "eng"]), ["eng", "deu"])
    read_by(connection, now.hash_of(["deu"]), ["eng"])
    read_by(connection, "f" * 64, ["deu", "eng"])
    read_by(connection, "a" * 64, ["missing"])
    assert data_out_of_date(connection, settings) == sorted([now.hash_of(["deu"]), "f" * 64])
    (tmp_path / "eng.traineddata").write_text("newer")
    assert len(data_out_of_date(connection, settings)) == 4, "all that have English in them"


def test_a_hash_may_be_cut_short_but_not_made_up(connection: Conn) -> None:
    read_by(connection, "abcdef01" + "0" * 56, ["eng"])
    read_by(connection, "abcdef02" + "0" * 56, ["eng"])
    assert data_beginning(connection, "batchproc", "ABCDEF01") == ["abcdef01" + "0" * 56]
    assert len(data_beginning(connection, "batchproc", "abcdef")) == 2
    with pytest.raises(UsageError, match="too short"):
        data_beginning(connection, "batchproc", "abcde")
    with pytest.raises(UsageError, match="nothing was read by language data 'abcdef09'"):
        data_beginning(connection, "batchproc", "abcdef09")


def test_the_rules_of_each_tenant_have_a_version_that_follows_their_files(connection: Conn, tmp_path: Path) -> None:
    acme, beta = add_tenant(connection, "acme"), add_tenant(connection, "beta")
    settings = Settings.model_validate({"taxonomy": {"folder": str(tmp_path)}})
    (tmp_path / "default.yaml").write_text(RULES.format(name="common"))
    before = rules_now(connection, JOBS, settings, None)
    assert set(before) == {acme, beta}
    assert before[acme] == before[beta]
    (tmp_path / "acme.yaml").write_text(RULES.format(name="own"))
    after = rules_now(connection, JOBS, settings, None)
    assert (after[acme] != before[acme], after[beta] == before[beta]) == (True, True)
    assert rules_now(connection, JOBS, settings, "beta") == {beta: before[beta]}
    (tmp_path / "default.yaml").write_text(RULES.format(name="common") + "# another content\n")
    assert rules_now(connection, JOBS, settings, "beta") != {beta: before[beta]}


def test_rules_that_are_wrong_are_told_and_nothing_is_chosen(connection: Conn, tmp_path: Path) -> None:
    add_tenant(connection, "acme")
    (tmp_path / "default.yaml").write_text("rules: no\n")
    settings = Settings.model_validate({"taxonomy": {"folder": str(tmp_path)}})
    with pytest.raises(UsageError, match=r"the rules of acme cannot be compared: .*default\.yaml"):
        rules_now(connection, JOBS, settings, None)
