"""docs/faults.md names, for every fault, a test that causes it."""

from __future__ import annotations

import ast
import re
from importlib import resources
from pathlib import Path

PAGE = resources.files("batchproc").joinpath("docs", "faults.md").read_text("utf-8")
REPOSITORY = Path(__file__).parents[2]
NAMED = sorted(set(re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", PAGE)))


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
    assert NAMED
    missing = [
        f"{path}::{name}"
        for path, name in NAMED
        if not (REPOSITORY / path).is_file() or (name and name not in _tests_in(path))
    ]
    assert missing == []


def test_every_file_of_fault_tests_is_in_the_table() -> None:
    about_the_tests = {"test_documentation.py", "test_nothing_left.py"}
    files = {path.name for path in Path(__file__).parent.glob("test_*.py")} - about_the_tests
    assert files <= {Path(path).name for path, _ in NAMED}
