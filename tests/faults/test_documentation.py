"""docs/faults.md names, for every fault, a test that causes it."""

from __future__ import annotations

import ast
import re
from importlib import resources
from pathlib import Path

PAGE = resources.files("batchproc").joinpath("docs", "faults.md").read_text("utf-8")
REPOSITORY = Path(__file__).parents[2]
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith("| fault |")]


def _named(text: str) -> list[tuple[str, str]]:
    """(file, test) of all tests that a text names; without a file, the one named before it is meant."""
    named: list[tuple[str, str]] = []
    for path, name in re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", text):
        named.append((path or named[-1][0], name))
    return named


def _tests_in(path: str) -> set[str]:
    tree = ast.parse((REPOSITORY / path).read_text("utf-8"))
    functions = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    machines = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    classes = {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)}
    return functions | machines | classes


def test_every_test_that_the_table_names_is_there() -> None:
    named = [test for row in ROWS for test in _named(row)]
    missing = [
        f"{path}::{name}" for path, name in named if not (REPOSITORY / path).is_file() or name not in _tests_in(path)
    ]
    assert missing == []


def test_every_row_names_a_test() -> None:
    assert ROWS
    assert [row for row in ROWS if not _named(row)] == []


def test_every_file_of_fault_tests_is_in_the_table() -> None:
    about_the_tests = {"test_documentation.py", "test_invariants.py", "test_nothing_left.py"}
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")} - about_the_tests
    assert files - {Path(path).name for row in ROWS for path, _ in _named(row)} == set()
