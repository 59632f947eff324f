"""The settings: where they come from, which source wins, and that everything wrong is named at its place."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from batchproc.config import SettingsError, cpus_available, load, worker_count
from batchproc.core.job import Lane
from batchproc.packaged import packaged_conf
from batchproc.setting_types import parse_duration, parse_size
from batchproc.settings import KindOverride, Settings, TenantSettings

REPO = Path(__file__).parents[2]
PASSWORD = "kQ7-geheim"


class Conf:
    """A settings file of a test's own."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, content: str | bytes) -> Path:
        self.path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self.path

    def load(self, content: str, environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
        return load(self.write(content), environ or {}, overrides)

    def problems(self, content: str | bytes, environ: Mapping[str, str] | None = None) -> list[str]:
        """What is wrong with the file, its path shortened to ``FILE``."""
        with pytest.raises(SettingsError) as caught:
            load(self.write(content), environ or {})
        assert str(caught.value) == "\n".join(caught.value.problems)
        return [problem.replace(str(self.path), "FILE") for problem in caught.value.problems]


@pytest.fixture
def conf(tmp_path: Path) -> Conf:
    return Conf(tmp_path / "site.yaml")


def problems_of(environ: Mapping[str, str], **overrides: Any) -> list[str]:
    with pytest.raises(SettingsError) as caught:
        load(None, environ, overrides)
    return list(caught.value.problems)


def test_defaults_are_those_of_the_models() -> None:
    assert load(None, {}) == Settings()


def keys_of(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for name, field in model.model_fields.items():
        key = prefix + (field.alias or name)
        inner = field.annotation
        if isinstance(inner, type) and issubclass(inner, BaseModel):
            yield from keys_of(inner, key + ".")
        else:
            yield key


def keys_in(content: dict[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in content.items():
        if isinstance(value, dict) and value:
            yield from keys_in(value, f"{prefix}{name}.")
        else:
            yield prefix + name


def test_packaged_file_has_every_setting_in_order_and_a_comment_on_each() -> None:
    text = (packaged_conf() / "batchproc.yaml").read_text()
    assert list(keys_in(yaml.safe_load(text))) == list(keys_of(Settings))
    rows = text.splitlines()
    for number, row in enumerate(rows):
        if re.match(r" {2}\w+:", row) and "lanes:" not in rows[number - 1 : number + 1]:
            assert rows[number - 1].lstrip().startswith("#"), row


def test_packaged_file_documents_every_override_of_a_kind() -> None:
    text = (packaged_conf() / "batchproc.yaml").read_text()
    example = text[text.index("#   kinds:") : text.index("kinds: {}")]
    content = yaml.safe_load("".join(line.removeprefix("# ") for line in example.splitlines(keepends=True)))
    assert list(content["kinds"]["ocr"]) == list(KindOverride.model_fields)
    Settings.model_validate(content)


def test_every_setting_is_described() -> None:
    def undescribed(model: type[BaseModel]) -> Iterator[str]:
        for name, field in model.model_fields.items():
            if not field.description:
                yield f"{model.__name__}.{name}"
            if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
                yield from undescribed(field.annotation)

    assert [*undescribed(Settings), *undescribed(KindOverride), *undescribed(TenantSettings)] == []


def test_later_sources_win(conf: Conf) -> None:
    content = "pool: {workers: 2, nice: 3}\nocr: {languages: [fra]}\n"
    settings = conf.load(
        content,
        {"BATCHPROC_POOL__WORKERS": "3", "BATCHPROC_OCR__DPI": "200", "BATCHPROC_OCR__MODE": "redo"},
        **{"pool.workers": 4, "ocr.mode": None},
    )
    assert (settings.pool.workers, settings.pool.nice) == (4, 3)
    assert settings.ocr.languages == ("fra",)
    assert (settings.ocr.dpi, settings.ocr.mode) == (200, "redo")
    assert settings.pool.memory_limit_mb == Settings().pool.memory_limit_mb


def test_file_is_found_by_the_environment_and_the_flag_goes_before_it(conf: Conf, tmp_path: Path) -> None:
    other = tmp_path / "other.yaml"
    other.write_text("pool: {nice: 7}")
    conf.write("pool: {nice: 5}")
    environ = {"BATCHPROC_CONF": str(other)}
    assert load(None, environ).pool.nice == 7
    assert load(conf.path, environ).pool.nice == 5


def test_packaged_file_that_is_given_is_read_once(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "batchproc.yaml").write_text("pool: {nice: 1, nice: 2}")
    monkeypatch.setattr("batchproc.config.loading.packaged_conf", lambda: tmp_path)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError) as caught:
        load(Path("batchproc.yaml"), {})
    assert caught.value.problems == ("batchproc.yaml:1: pool.nice: set twice, first in line 1",)


def test_kinds_of_all_sources_are_merged(conf: Conf) -> None:
    settings = conf.load(
        "kinds: {ocr: {timeout: 2h, lane: bulk}, classify: {limit: 3}}",
        {"BATCHPROC_KINDS__OCR__TIMEOUT": "90", "BATCHPROC_KINDS__WORKFLOW": "{max_attempts: 2}"},
    )
    assert settings.kinds["ocr"].changes() == {"timeout": 90.0, "lane": Lane.BULK}
    assert settings.kinds["classify"].changes() == {"limit": 3}
    assert settings.kinds["workflow"].changes() == {"max_attempts": 2}


def test_section_with_everything_commented_out_changes_nothing(conf: Conf) -> None:
    assert conf.load("pool:\n  # workers: 3\nocr:\n") == Settings()
    assert conf.load("") == conf.load("# nothing\n") == Settings()


def test_relative_paths_are_relative_to_their_file(conf: Conf, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", "/home/somebody")
    settings = conf.load(
        "storage: {roots: [scans, ~/scans, /archive]}\ntaxonomy: {folder: rules}\nlogging: {file: b.log}",
        {"BATCHPROC_OCR__TESSDATA": "[tessdata]"},
    )
    assert settings.storage.roots == (tmp_path / "scans", Path("/home/somebody/scans"), Path("/archive"))
    assert settings.taxonomy.folder == tmp_path / "rules"
    assert settings.logging.file == tmp_path / "b.log"
    assert settings.ocr.tessdata == (elsewhere / "tessdata",)


def test_all_problems_of_a_file_come_at_once_in_its_order(conf: Conf) -> None:
    content = """\
pool:
  workers: 0
  wrkers: 3
  nice: 30
workers: 4
database:
  schema: pg_temp
  schema: 3
  schema_name: x
kinds:
  ocr:
    lane: night
    lmit: 3
    timeout: 2 hours
ocr:
  languages:
    - eng
    - ../deu
  mode: fast
  bounds: {max_bytes: many}
errors: yes
"""
    assert conf.problems(content) == [
        "FILE:2: pool.workers: must be at least 1",
        "FILE:3: pool.wrkers: unknown setting, did you mean pool.workers?",
        "FILE:4: pool.nice: must be at most 19",
        "FILE:5: workers: unknown setting, did you mean pool.workers?",
        "FILE:8: database.schema: set twice, first in line 7",
        "FILE:8: database.schema: must be text",
        "FILE:9: database.schema_name: unknown setting, did you mean database.schema?",
        "FILE:12: kinds.ocr.lane: must be interactive or bulk",
        "FILE:13: kinds.ocr.lmit: unknown setting, did you mean kinds.ocr.limit?",
        "FILE:14: kinds.ocr.timeout: must be a number of seconds or a duration such as 500ms, 90s, 5m, 1h30m or 1d",
        "FILE:18: ocr.languages[1]: must be a language such as eng or script/Latin",
        "FILE:19: ocr.mode: must be 'skip', 'redo' or 'force'",
        "FILE:20: ocr.bounds.max_bytes: must be a number of bytes or a size such as 500MB or 2GiB",
        "FILE:21: errors: must be a section of names and values",
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("pool:\n  workers: two\n", "FILE:2: pool.workers: must be a whole number, or auto"),
        ("pool: {workers: true}", "FILE:1: pool.workers: must be a whole number, or auto"),
        ("pool: {nice: 1.5}", "FILE:1: pool.nice: must be a whole number"),
        ("ocr: {orientation: 1}", "FILE:1: ocr.orientation: must be true or false"),
        ("ocr: {languages: eng}", "FILE:1: ocr.languages: must be a list such as [a, b]"),
        ("ocr: {languages: []}", "FILE:1: ocr.languages: must not be empty"),
        ("ocr: {languages: [eng, eng]}", "FILE:1: ocr.languages: must not name anything twice"),
        ("handlers: [a b]", "FILE:1: handlers[0]: must be the name of a Python module such as archive.handlers"),
        ("run: {accept_codes: [Bad]}", "FILE:1: run.accept_codes[0]: must be a name of lower-case"),
        ("dispatch: {lanes: {bulk: 0}}", "FILE:1: dispatch.lanes.bulk: must be at least 1"),
        ("dispatch: {brake: 0}", "FILE:1: dispatch.brake: must be at least 1, or off"),
        ("dispatch: {brake: 10001}", "FILE:1: dispatch.brake: must be at most 10000, or off"),
        ("dispatch: {brake: on}", "FILE:1: dispatch.brake: must be a whole number, or off"),
        ("dispatch: {brake: null}", "FILE:1: dispatch.brake: must be a whole number, or off"),
        ("dispatch: {fairness: lottery}", "FILE:1: dispatch.fairness: must be 'round_robin' or 'worker_seconds'"),
        ("retry:\n  base: 10m\n", "FILE:2: retry.cap: must not be less than base"),
        ("pool:\n  workers: 2\ndispatch:\n  reserved: 2\n", "FILE:4: dispatch.reserved: must be at most 1, one less"),
        ("kinds: {Ocr: {}}", "FILE:1: kinds.Ocr: must be a name of lower-case letters"),
        ("pool: {shutdown_grace: -1}", "FILE:1: pool.shutdown_grace: must not be negative"),
        ("pool: {'a\\nFILE:1: b': 1}", "FILE:1: pool.a\\nFILE:1: b: unknown setting, known here are workers"),
        ("storage: {min_free: null}", "FILE:1: storage.min_free: must be a number of bytes"),
        ("pool:\n  workers: 3\n nice: 3\n", "FILE:3: not valid YAML: "),
        ("pool: {workers: [}", "FILE:1: not valid YAML: "),
        ("- pool\n", "FILE:1: must hold sections such as pool: or ocr:"),
        ("a: &a [*a]", "FILE:1: anchors and aliases (& and *) are not supported"),
        ("[" * 5000, "FILE:1: nested more than "),
        ("on: 1", "FILE:1: a key must be text"),
        ("pool: {workers: 1}\n---\npool: {workers: 2}", "FILE:2: not valid YAML: "),
        ("pool:\n  nice: \x01", "FILE:2: not valid YAML: a control character"),
        (b"pool:\n  nice: \xff", "FILE: cannot read these settings: line 2 is not UTF-8"),
        (b"# " + b"x" * 1_000_001, "FILE: cannot read these settings: more than 1000000 bytes"),
    ],
)
def test_what_is_wrong_is_named(conf: Conf, content: str | bytes, problem: str) -> None:
    first, *others = conf.problems(content)
    assert first.startswith(problem)
    assert not others


def test_the_brake_is_a_number_or_off(conf: Conf) -> None:
    assert conf.load("dispatch: {brake: 5}").dispatch.brake == 5
    assert conf.load("dispatch: {brake: off}").dispatch.brake == "off"
    assert conf.load("dispatch: {brake: 'off'}").dispatch.brake == "off"
    assert load(None, {"BATCHPROC_DISPATCH__BRAKE": "off"}).dispatch.brake == "off"


def test_a_flood_of_problems_is_cut(conf: Conf) -> None:
    problems = conf.problems("pool:\n" + "".join(f"  unknown{number}: 1\n" for number in range(500)))
    assert len(problems) == 51
    assert problems[-1] == "and 450 more"


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("{folder}", "not a file"),
        ("{folder}/absent.yaml", "No such file or directory"),
        ("{folder}/pipe", "not a file"),
        ("{folder}/a\0b", "embedded null byte"),
    ],
)
def test_what_is_no_readable_file_is_one_line(tmp_path: Path, path: str, reason: str) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(SettingsError) as caught:
        load(Path(path.format(folder=tmp_path)), {})
    assert len(caught.value.problems) == 1
    assert str(caught.value).endswith(f": cannot read these settings: {reason}")
    assert "\n" not in str(caught.value)


def test_environment_and_flags_are_named_as_places() -> None:
    environ = {
        "BATCHPROC_DISPATCH__POLL_INTERVAL": "0",
        "BATCHPROC_KINDS": "{ocr: {timeout: 2x}}",
        "BATCHPROC_POOL__WRKERS": "1",
        "BATCHPROC_PUL__X": "1",
        "BATCHPROC_RETRY": "5",
        "BATCHPROC_RUN__ACCEPT_CODES": "[a: b",
        "BATCHPROC___X": "1",
    }
    assert problems_of(environ, **{"pool.workers": 0, "database.url": "x"}) == [
        "--database: must be a URL such as postgresql://user:password@host:5432/name",
        "--workers: must be at least 1",
        "BATCHPROC_DISPATCH__POLL_INTERVAL: must be at least 0.01",
        "BATCHPROC_KINDS: kinds.ocr.timeout: must be a number of seconds or a duration such as "
        "500ms, 90s, 5m, 1h30m or 1d",
        "BATCHPROC_POOL__WRKERS: unknown setting, did you mean pool.workers?",
        "BATCHPROC_PUL__X: pul: unknown setting, did you mean pool?",
        "BATCHPROC_RETRY: must be a section of names and values",
        "BATCHPROC_RUN__ACCEPT_CODES: not valid YAML: expected ',' or ']', but got '<stream end>' "
        "(while parsing a flow sequence)",
        "BATCHPROC___X: is not a setting: write BATCHPROC_SECTION__NAME",
    ]


def test_environment_beyond_the_settings_is_left_alone() -> None:
    environ = {
        "BATCHPROC_HOME": "/somewhere",
        "BATCHPROC_SLOT": "1__2",
        "BATCHPROC_TEST_DATABASE_URL": "x",
        "BATCHPROC_TEST__X": "1",
        "BATCHPROC_VENDOR": "a",
        "OTHER__X": "1",
    }
    assert load(None, environ) == Settings()


@pytest.mark.parametrize(
    ("environ", "overrides", "place"),
    [
        ({"BATCHPROC_DATABASE_URL": ""}, {}, "BATCHPROC_DATABASE_URL"),
        ({"BATCHPROC_DATABASE__URL": " "}, {}, "BATCHPROC_DATABASE__URL"),
        ({"BATCHPROC_DATABASE__DIRECT_URL": ""}, {}, "BATCHPROC_DATABASE__DIRECT_URL"),
        ({}, {"database.url": ""}, "--database"),
        ({"BATCHPROC_CONF": ""}, {}, "BATCHPROC_CONF"),
    ],
)
def test_nothing_chooses_no_other_database(environ: dict[str, str], overrides: dict[str, str], place: str) -> None:
    """A variable of a shell that is not set where it should have been."""
    with pytest.raises(SettingsError, match=f"^{place}: is empty: ") as caught:
        load(None, environ, overrides)
    assert len(caught.value.problems) == 1
    assert load(None, {"BATCHPROC_DATABASE__URL": "null"}).database.url is None


def test_an_empty_variable_does_no_harm_where_something_goes_before_it() -> None:
    environ = {"BATCHPROC_DATABASE_URL": "", "BATCHPROC_CONF": ""}
    packaged = packaged_conf() / "batchproc.yaml"
    assert load(packaged, environ, {"database.url": "postgresql:///archive"}).database.url is not None


def test_value_that_conflicts_is_reported_where_it_was_set(conf: Conf) -> None:
    content = "dispatch:\n  reserved: 2\n"
    assert conf.problems(content, {"BATCHPROC_POOL__WORKERS": "2"}) == [
        "BATCHPROC_POOL__WORKERS: dispatch.reserved: must be at most 1, one less than the workers, "
        "or bulk jobs would never run"
    ]


def test_reserved_workers_are_checked_against_auto(conf: Conf) -> None:
    cpus = cpus_available()
    assert conf.load(f"dispatch: {{reserved: {cpus - 1}}}").dispatch.reserved == cpus - 1
    assert conf.problems(f"dispatch: {{reserved: {cpus}}}")[0].startswith(
        f"FILE:1: dispatch.reserved: must be at most {cpus - 1}"
    )


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://archive:{}@db.example.org:5432/archive",
        "postgres://archive:{}@[::1]:5432,other:5433/archive?sslmode=require",
        "postgresql:///archive?host=/run/postgresql&password={}",
        "postgresql://%2Frun%2Fpostgresql/archive",
    ],
)
def test_database_url_is_kept_secret(url: str) -> None:
    url = url.format(PASSWORD)
    settings = load(None, {"BATCHPROC_DATABASE_URL": url})
    assert settings.database.url is not None
    assert settings.database.url.get_secret_value() == url
    for shown in (repr(settings), str(settings), settings.model_dump_json(), repr(settings.database)):
        assert PASSWORD not in shown


@pytest.mark.parametrize(
    "url",
    [
        f"mysql://u:{PASSWORD}@h/d",
        f"postgresql:/u:{PASSWORD}@h/d",
        f"host=h password={PASSWORD}",
        f"postgresql://u:{PASSWORD}/x@h/d",
        f"postgresql://u:{PASSWORD}%zz@h/d",
        f"postgresql://u:{PASSWORD} @h/d",
        f"postgresql://h:{PASSWORD}/d",
        f"[{PASSWORD}]",
        f"{{{PASSWORD}: {PASSWORD}}}",
        f"&{PASSWORD} *{PASSWORD}",
        f"!{PASSWORD} x",
        f'"{PASSWORD}\\q"',
        f"'{PASSWORD}",
        f"%{PASSWORD}",
        f"@{PASSWORD}",
    ],
)
def test_wrong_database_url_appears_in_no_error(conf: Conf, url: str, capfd: pytest.CaptureFixture[str]) -> None:
    sources = [(conf.write(f"database:\n  url: {url}\n"), {}), (None, {"BATCHPROC_DATABASE__URL": url})]
    if not url.startswith(("[", "{", "&", "!", '"', "'")):
        sources.append((None, {"BATCHPROC_DATABASE_URL": url}))
    for path, environ in sources:
        with pytest.raises(SettingsError) as caught:
            load(path, environ)
        chain: list[BaseException | None] = [caught.value, caught.value.__cause__]
        for error in chain:
            assert PASSWORD not in str(error) + repr(error)
    assert PASSWORD not in "".join(capfd.readouterr())


def test_validation_errors_of_the_models_quote_nothing() -> None:
    with pytest.raises(ValidationError) as caught:
        Settings.model_validate({"database": {"url": f"x://{PASSWORD}", "schema": PASSWORD}})
    assert PASSWORD not in str(caught.value)


def test_settings_are_frozen_and_take_no_unknown_names() -> None:
    with pytest.raises(ValidationError):
        Settings().pool.nice = 3
    with pytest.raises(ValidationError):
        TenantSettings.model_validate({"language": ["eng"]})
    assert TenantSettings.model_validate({"languages": ["eng"], "mode": "redo"}).languages == ("eng",)


@given(st.integers(0, 20), st.integers(0, 59), st.integers(0, 59), st.integers(0, 999), st.sampled_from(["", " "]))
def test_durations_add_up(hours: int, minutes: int, seconds: int, millis: int, gap: str) -> None:
    text = f"{hours}h{gap}{minutes}m{gap}{seconds}s{gap}{millis}ms"
    assert parse_duration(text) == pytest.approx(hours * 3600 + minutes * 60 + seconds + millis / 1000)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(0, 0), (1.5, 1.5), ("90", 90), ("1.5h", 5400), ("1h30m", 5400), ("500ms", 0.5), ("1d", 86400)],
)
def test_durations(value: object, seconds: float) -> None:
    assert parse_duration(value) == seconds


@pytest.mark.parametrize("value", ["", "h", "5 m x", "1y", "-5m", -1, True, None, [], float("nan"), "9" * 400, 10**400])
def test_no_durations(value: object) -> None:
    with pytest.raises(ValueError, match="must"):
        parse_duration(value)


def test_sizes() -> None:
    assert [parse_size(value) for value in (7, "7", "500MB", "2 GiB", "1.5kb")] == [7, 7, 500_000_000, 2**31, 1500]
    for value in (-1, "1 parsec", "MB", 1.5, True, None):
        with pytest.raises(ValueError, match="must"):
            parse_size(value)


def cgroups(tmp_path: Path, own: str, files: dict[str, str]) -> int:
    for name, content in files.items():
        path = tmp_path / "mount" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    membership = tmp_path / "cgroup"
    membership.write_text(own)
    return cpus_available(membership, tmp_path / "mount")


@pytest.mark.parametrize(
    ("own", "files", "quota"),
    [
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000"}, None),
        ("0::/a/b\n", {"a/b/cpu.max": "100000 100000"}, 1),
        ("0::/a/b\n", {"a/b/cpu.max": "150000 100000"}, 2),
        ("0::/a/b\n", {"a/b/cpu.max": "max 100000", "a/cpu.max": "30000 100000"}, 1),
        ("0::/\n", {"cpu.max": "10000 100000"}, 1),
        (
            "5:cpu,cpuacct:/d/x\n0::/\n",
            {"cpu,cpuacct/cpu.cfs_quota_us": "90000", "cpu,cpuacct/cpu.cfs_period_us": "100000"},
            1,
        ),
        ("1:cpu:/d\n", {"cpu/d/cpu.cfs_quota_us": "-1", "cpu/d/cpu.cfs_period_us": "100000"}, None),
        ("9:cpuset:/a\n", {"a/cpu.max": "10000 100000", "cpuset/a/cpu.max": "10000 100000"}, None),
        ("rubbish\n", {"cpu.max": "x"}, None),
    ],
)
def test_cpus_are_bounded_by_the_cgroup(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, own: str, files: dict[str, str], quota: int | None
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    assert cgroups(tmp_path, own, files) == (quota or 8)


def test_worker_count() -> None:
    assert worker_count(load(None, {})) == cpus_available() >= 1
    assert worker_count(load(None, {}, {"pool.workers": 7})) == 7


def test_every_package_is_installed_and_conf_with_it() -> None:
    setuptools = tomllib.loads((REPO / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = {path.parent for path in (REPO / "batchproc").rglob("*.py")}
    names = {".".join(folder.relative_to(REPO).parts) for folder in folders}
    assert set(setuptools["packages"]) == names | {"batchproc.conf"}
    assert setuptools["package-dir"]["batchproc.conf"] == "conf"
    assert packaged_conf() == REPO / "conf"
