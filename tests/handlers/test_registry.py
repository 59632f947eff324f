"""Declaring kinds, finding their modules, and what the settings change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from batchproc.core.errors import UsageError
from batchproc.core.job import Lane
from batchproc.handlers import registry
from batchproc.handlers.args import describe_invalid, validated_args
from batchproc.settings import Settings

MODULE = """
from pydantic import BaseModel
from batchproc import Context, handler

class Args(BaseModel, extra="forbid"):
    document_id: int
    size: int = 256

@handler("thumbnail", timeout=60, max_attempts=7, failure_codes={"unreadable_file"})
def thumbnail(ctx: Context, args: Args) -> None: ...

@handler("sweep")
def sweep(ctx: Context) -> None: ...
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An importable module of handlers."""
    name = f"handlers_of_{tmp_path.name}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


def test_a_module_of_the_settings_adds_its_kinds_to_the_built_in_ones(module: str) -> None:
    kinds = registry.load([module])

    assert {"ocr", "classify", "workflow", "thumbnail", "sweep"} <= set(kinds)
    spec = kinds["thumbnail"].spec
    assert (spec.timeout, spec.max_attempts, set(spec.failure_codes)) == (60.0, 7, {"unreadable_file"})
    assert not kinds["sweep"].takes_args


def test_settings_stand_above_what_a_kind_declares_and_that_above_the_common_budgets(module: str) -> None:
    settings = Settings.model_validate(
        {
            "handlers": [module],
            "retry": {"max_attempts": 9, "max_crashes": 4},
            "kinds": {"thumbnail": {"timeout": 5, "lane": "interactive"}},
        }
    )

    kinds = registry.for_settings(settings)

    thumbnail, sweep = kinds["thumbnail"].spec, kinds["sweep"].spec
    assert (thumbnail.timeout, thumbnail.max_attempts, thumbnail.max_crashes) == (5, 7, 4)
    assert (sweep.timeout, sweep.max_attempts, sweep.max_crashes) == (600, 9, 4)
    assert (thumbnail.lane, sweep.lane) == (Lane.INTERACTIVE, None)


def test_an_entry_point_adds_its_kinds(tmp_path: Path, module: str) -> None:
    folder = tmp_path / "plugin-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(f"[batchproc.handlers]\nall = {module}\n")

    assert "thumbnail" in registry.load()


def test_a_broken_entry_point_is_named(tmp_path: Path, module: str) -> None:
    folder = tmp_path / "plugin-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[batchproc.handlers]\nall = no_such_module_at_all\n")

    with pytest.raises(UsageError, match=r"entry point all .no_such_module_at_all. cannot be loaded"):
        registry.load()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("import no_such_module_at_all", "cannot be imported: ModuleNotFoundError"),
        ("raise SystemExit(0)", "cannot be imported: SystemExit: 0"),
        ("raise SystemError('broken')", "cannot be imported: SystemError: broken"),
        (
            "from batchproc import handler\n@handler('ocr')\ndef mine(ctx): ...",
            "kind ocr has two handlers, batchproc.handlers.ocr.* and ",
        ),
        ("from batchproc import handler\n@handler('x')\ndef x(ctx, args): ...", "have no pydantic model"),
        ("from batchproc import handler\n@handler('Bad Name')\ndef x(ctx): ...", "'Bad Name' cannot name a kind"),
        (
            "from batchproc import handler\n@handler('x', failure_codes={'no luck'})\ndef x(ctx): ...",
            "'no luck' cannot name",
        ),
    ],
)
def test_a_module_that_cannot_be_used_is_one_clear_error(module: str, source: str, message: str) -> None:
    Path(sys.path[0], f"{module}.py").write_text(source)

    with pytest.raises(UsageError, match=message):
        registry.load([module])


def test_an_override_of_an_unknown_kind_is_refused() -> None:
    with pytest.raises(UsageError, match="the setting kinds names orc, which no handler declares"):
        registry.load(overrides={"orc": {"timeout": 5}})


def test_args_are_validated_and_the_document_of_the_job_is_its_document_id(module: str) -> None:
    entry = registry.load([module])["thumbnail"]

    assert validated_args(entry, {"size": 9}, 7).model_dump() == {"document_id": 7, "size": 9}
    with pytest.raises(ValidationError):
        validated_args(entry, {"size": 9}, None)
    with pytest.raises(ValidationError) as invalid:
        validated_args(entry, {"size": "a secret", "colour": "another"}, 7)
    described = describe_invalid(invalid.value)
    assert "size: " in described
    assert "colour: " in described
    assert "secret" not in described
    assert "another" not in described


def test_the_api_is_importable_by_its_short_names() -> None:
    import batchproc

    assert issubclass(batchproc.Failure, Exception)
    assert issubclass(batchproc.Snooze, Exception)
    assert batchproc.Lane(1) is batchproc.Lane.BULK
    assert isinstance(batchproc.Context, type)
    assert not issubclass(batchproc.Queue, BaseModel)
    with pytest.raises(AttributeError):
        batchproc.no_such_name  # noqa: B018
