"""Rule folders: which files count for a tenant, when they are read again, what is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from batchproc import yaml_lines
from batchproc.handlers.rules import files
from batchproc.handlers.rules.files import InvalidRules, RuleFolder, UnreadableRules
from batchproc.handlers.rules.reading import RuleFile, read
from batchproc.handlers.rules.taxonomy import TaxonomyRule
from batchproc.handlers.rules.workflow import WorkflowRule


def rule_file(*names: str, version: str = "1", tag: str = "t") -> str:
    rules = "".join(f"  - {{name: {name}, match: word, tags: {tag}}}\n" for name in names)
    return f"version: {version}\nrules:\n{rules}"


def names(folder: RuleFolder[TaxonomyRule], path: Path, tenant: str = "acme") -> list[str]:
    return [versioned.rule.name for versioned in folder.rules(path, tenant)]


@pytest.fixture
def taxonomy() -> RuleFolder[TaxonomyRule]:
    return RuleFolder(TaxonomyRule, "taxonomy")


def test_a_tenants_rules_go_first_and_replace_those_of_their_name(
    taxonomy: RuleFolder[TaxonomyRule], tmp_path: Path
) -> None:
    (tmp_path / "default.yaml").write_text(rule_file("a", "b", "c", version="d"))
    (tmp_path / "acme.yaml").write_text(
        rule_file("x", "b", version="t", tag="mine") + "  - {name: c, enabled: false}\n"
    )
    found = taxonomy.rules(tmp_path, "acme")
    assert [versioned.rule.name for versioned in found] == ["x", "b", "a"]
    assert found[1].rule.tags == ("mine",)
    assert [versioned.version[:2] for versioned in found] == ["t+", "t+", "d+"]
    assert names(taxonomy, tmp_path, "other") == ["a", "b", "c"]
    assert names(taxonomy, tmp_path, "default") == ["a", "b", "c"]


def test_no_files_mean_no_rules(taxonomy: RuleFolder[TaxonomyRule], tmp_path: Path) -> None:
    assert names(taxonomy, tmp_path) == []


def test_a_file_is_parsed_again_only_when_it_changed(
    taxonomy: RuleFolder[TaxonomyRule], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []

    def counting_read(content: bytes, source: str, model: type[TaxonomyRule]) -> RuleFile[TaxonomyRule]:
        parsed.append(source)
        return read(content, source, model)

    monkeypatch.setattr(files, "read", counting_read)
    path = tmp_path / "default.yaml"
    path.write_text(rule_file("a"))
    assert names(taxonomy, tmp_path) == names(taxonomy, tmp_path, "other") == ["a"]
    assert len(parsed) == 1
    before = path.stat()
    path.write_text(rule_file("b"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert names(taxonomy, tmp_path) == ["b"]
    path.write_text(rule_file("b", "longer"))
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    assert names(taxonomy, tmp_path) == ["b", "longer"]
    assert len(parsed) == 3
    path.unlink()
    assert names(taxonomy, tmp_path) == []


def test_the_cache_is_bounded(
    taxonomy: RuleFolder[TaxonomyRule], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "MAX_CACHED_FILES", 2)
    for tenant in ("a", "b", "c"):
        (tmp_path / f"{tenant}.yaml").write_text(rule_file(tenant))
    for tenant in ("a", "b", "c", "a"):
        assert names(taxonomy, tmp_path, tenant) == [tenant]
    assert len(taxonomy._files) == 2


def test_the_version_is_what_the_file_says_and_a_hash_of_it(taxonomy: RuleFolder[TaxonomyRule], tmp_path: Path) -> None:
    def version(text: str) -> str:
        return read(text.encode(), "f", TaxonomyRule).rules[0].version

    assert version(rule_file("a", version="2024-q3")).startswith("2024-q3+")
    assert version(rule_file("a")) == version(rule_file("a"))
    assert version(rule_file("a")) != version(rule_file("a", tag="u"))


def test_all_problems_of_both_files_are_told_at_once(taxonomy: RuleFolder[TaxonomyRule], tmp_path: Path) -> None:
    (tmp_path / "default.yaml").write_text(
        "version: 1\nrules:\n" + "".join(f"  - {{name: '!{n}'}}\n" for n in range(12))
    )
    (tmp_path / "acme.yaml").write_text("version: 1\nrules: [\n")
    with pytest.raises(InvalidRules) as caught:
        taxonomy.rules(tmp_path, "acme")
    assert (caught.value.code, caught.value.retry) == ("invalid_rules", False)
    assert caught.value.problems[0].startswith(f"{tmp_path}/acme.yaml:3: not valid YAML")
    assert caught.value.problems[1].startswith(f"{tmp_path}/default.yaml:3: rules[0].name: must be")
    assert len(caught.value.problems) == 13
    assert caught.value.detail is not None
    assert caught.value.detail.endswith("; and 3 more")
    with pytest.raises(InvalidRules):
        taxonomy.rules(tmp_path, "other")
    assert len(taxonomy.check(tmp_path)) == 13


def test_what_cannot_be_read_is_transient(taxonomy: RuleFolder[TaxonomyRule], tmp_path: Path) -> None:
    with pytest.raises(UnreadableRules) as caught:
        taxonomy.rules(tmp_path / "gone", "acme")
    assert (caught.value.code, caught.value.retry) == ("rules_unreadable", True)
    assert "gone" in (caught.value.detail or "")
    (tmp_path / "acme.yaml").symlink_to("acme.yaml")
    with pytest.raises(UnreadableRules, match="rules_unreadable"):
        taxonomy.rules(tmp_path, "acme")


def test_only_files_are_read(taxonomy: RuleFolder[TaxonomyRule], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "default.yaml", stat.S_IRUSR | stat.S_IWUSR)
    with pytest.raises(InvalidRules) as caught:
        taxonomy.rules(tmp_path, "acme")
    assert caught.value.problems == (f"{tmp_path}/default.yaml: is not a file",)


@pytest.mark.parametrize("model", [TaxonomyRule, WorkflowRule])
@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"a: &x [1]\nb: *x\n", "f:1: anchors and aliases (& and *) are not supported"),
        (b"version: 1\nrules: *x\n", "f:2: anchors and aliases (& and *) are not supported"),
        (b"[" * 5000, "f:1: nested more than 40 levels deep"),
        (b"- 1\n" * 60_000, "f:50000: more than 50000 values"),
        (b"#" * 1_000_001, "f: has more than 1000000 bytes"),
        (b"a: 1\nb: \xe4\n", "f:2: is not UTF-8"),
        (b"a: 1\nb: \x00\n", "f:2: not valid YAML: a control character"),
        (b"a: b: c\n", "f:1: not valid YAML: mapping values are not allowed here"),
        (b"version: !!python/object:os.system x\n", "f:1: version: not a value that can be read"),
        (b"version: 1\nversion: 2\nrules: []\n", "f:2: version: set twice, first in line 1"),
        (b"version: 1\nrules: []\n7: x\n", "f:3: a key must be text"),
        (b"- 1\n", "f:1: must hold names and values"),
        (b"version: 1\nrules: {a: 1}\n", "f:2: rules: must be a list such as [a, b]"),
        (b"version: 1\nrules:\n- {name: 1}\n", "f:3: rules[0].name: must be text; put it in quotes"),
        (b"version: 1\n---\nversion: 2\n", "f:2: not valid YAML: but found another document"),
    ],
)
def test_hostile_and_broken_files_are_refused(
    content: bytes, problem: str, model: type[TaxonomyRule] | type[WorkflowRule]
) -> None:
    shown = read(content, "f", model).problems
    assert any(line.startswith(problem) for line in shown), shown


def test_a_key_without_a_line_has_that_of_what_is_around_it() -> None:
    parsed = yaml_lines.parse("a:\n  b:\n    - 1\n    - {c: 2}\n")
    assert parsed.value == {"a": {"b": [1, {"c": 2}]}}
    assert [parsed.line(key) for key in (("a", "b", 1, "c"), ("a", "b", 1, "d"), ("a", "x"), ("z",))] == [4, 4, 1, 1]


def test_the_packaged_rules_are_right() -> None:
    for folder in (RuleFolder(TaxonomyRule, "taxonomy"), RuleFolder(WorkflowRule, "workflows")):
        assert folder.check(None) == []
        assert folder.rules(None, "any-tenant") != folder.rules(None, "example-tenant") != []
