"""What the code of the package must not do, looked for in its syntax trees."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import batchproc
from batchproc.core import kinds

PACKAGE = Path(batchproc.__file__).parent
FILES = sorted(path for path in PACKAGE.rglob("*.py") if "__pycache__" not in path.parts)

_FORBIDDEN_CALLS = {
    "eval": "runs text as code",
    "exec": "runs text as code",
    "compile": "makes code of text",
    "__import__": "imports what a text says",
    "os.system": "starts a shell",
    "os.popen": "starts a shell",
    "subprocess.getoutput": "starts a shell",
    "subprocess.getstatusoutput": "starts a shell",
    "asyncio.create_subprocess_shell": "starts a shell",
    "pickle.load": "runs whatever was pickled",
    "pickle.loads": "runs whatever was pickled",
    "marshal.loads": "makes code of bytes",
    "shelve.open": "runs whatever was pickled",
    "yaml.load": "makes objects of any class",
    "yaml.unsafe_load": "makes objects of any class",
    "yaml.full_load": "makes objects of many classes",
    "tempfile.mktemp": "gives a name that somebody else can take first",
    "sys.addaudithook": "cannot be taken back",
}
_UNPICKLING = {"engine/pool/child_setup.py"}
"""Where a worker reads what its own node has pickled, over a pipe that nobody else can write to."""

_OPENING = {
    "documents/walk.py",
    "documents/root_identity.py",
    "documents/mounted.py",
    "ocr/tessdata.py",
    "ocr/memory.py",
}
"""Of the packages that know of documents, what opens files by name: originals, roots' markers, languages, /proc."""

_STATEMENTS_OF_THE_QUEUE = {
    "engine/job_loading.py",
    "engine/tenant_names.py",
    "handlers/resource_slots.py",
    "ops/bench/database_costs.py",
    "ops/bench/enqueue.py",
}
"""Outside the queue, what runs statements of its folder as they stand there, and not by its classes."""

_LOOKING_AT_JOBS = {
    "documents/sql/pages/begun_pages.sql",
    "documents/sql/listing/show_ranges.sql",
    "ops/metrics/sql/metrics_queue.sql",
    "ops/sql/attempt_traces.sql",
}
"""Outside the queue, what reads its table of jobs; the benches measure it, and do as they like."""

_KINDS = {kinds.OCR, kinds.CLASSIFY, kinds.WORKFLOW}

_EXECUTING = {"execute", "executemany", "copy", "stream"}


def _trees() -> Iterator[tuple[str, ast.Module]]:
    for path in FILES:
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text("utf-8"))


TREES = dict(_trees())


def _calls(tree: ast.Module) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


def test_the_package_is_looked_at() -> None:
    assert len(TREES) > 100
    assert "engine/worker.py" in TREES


@pytest.mark.parametrize("call", sorted(_FORBIDDEN_CALLS))
def test_nothing_dangerous_is_called(call: str) -> None:
    found = [
        f"{path}:{node.lineno} {_FORBIDDEN_CALLS[call]}"
        for path, tree in TREES.items()
        for name, node in _calls(tree)
        if name == call and not (call.startswith("pickle.") and path in _UNPICKLING)
    ]
    assert found == []


def test_no_program_is_started_through_a_shell() -> None:
    """Nor with a line of words that somebody would have to take apart."""
    found = []
    for path, tree in TREES.items():
        for name, node in _calls(tree):
            words = {word.arg: word.value for word in node.keywords if word.arg}
            shell = words.get("shell")
            if shell is not None and not (isinstance(shell, ast.Constant) and shell.value is False):
                found.append(f"{path}:{node.lineno} shell")
            is_program = name in {"subprocess.run", "subprocess.Popen", "subprocess.check_output", "subprocess.call"}
            if is_program and node.args and isinstance(node.args[0], ast.Constant | ast.JoinedStr):
                found.append(f"{path}:{node.lineno} a line instead of words")
    assert found == []


def test_no_statement_is_put_together_from_text() -> None:
    """SQL is in files; identifiers are quoted by psycopg's own composition."""
    found = []
    for path, tree in TREES.items():
        for name, node in _calls(tree):
            method = name.rpartition(".")[2]
            given = node.args[0] if node.args else None
            is_composed = isinstance(given, ast.JoinedStr | ast.BinOp) or (
                isinstance(given, ast.Call)
                and ast.unparse(given.func).endswith((".format", ".join", ".replace"))
                and "sql." not in ast.unparse(given)
                and "SQL" not in ast.unparse(given)
            )
            if method in _EXECUTING and "." in name and is_composed:
                found.append(f"{path}:{node.lineno} {ast.unparse(node)[:80]}")
            if name in {"sql.SQL", "SQL"} and not isinstance(given, ast.Constant):
                found.append(f"{path}:{node.lineno} {ast.unparse(node)[:80]}")
    assert found == []


def test_only_one_module_opens_originals() -> None:
    """What reads documents is given descriptors, and opens nothing by name."""
    found = []
    for path, tree in TREES.items():
        if path.split("/")[0] not in {"documents", "ocr"} or path in _OPENING:
            continue
        for name, node in _calls(tree):
            if name in {"open", "os.open", "io.open"} or name.endswith((".open", ".read_bytes", ".read_text")):
                found.append(f"{path}:{node.lineno} {ast.unparse(node)[:80]}")
    assert [place for place in found if "Image.open(stream" not in place] == []


@pytest.mark.parametrize("path", ["documents/walk.py", "documents/root_identity.py"])
def test_originals_are_opened_for_reading_only(path: str) -> None:
    tree = TREES[path]
    flags = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert {"os.O_RDONLY", "os.O_NOFOLLOW", "os.O_NONBLOCK", "os.O_NOCTTY"} <= flags
    assert not {"os.O_WRONLY", "os.O_RDWR", "os.O_CREAT", "os.O_TRUNC", "os.O_APPEND"} & flags
    for name, node in _calls(tree):
        assert name not in {"open", "os.chmod", "os.utime", "os.rename", "os.unlink", "os.remove"}, node.lineno


def test_files_made_in_the_temp_folder_are_private() -> None:
    """tempfile makes them so by itself; what is made by hand says with which mode."""
    found = []
    for path, tree in TREES.items():
        for name, node in _calls(tree):
            flags = ast.unparse(node.args[1]) if name == "os.open" and len(node.args) > 1 else ""
            if "O_CREAT" in flags and len(node.args) < 3:
                found.append(f"{path}:{node.lineno}")
    assert found == []


def test_tesseract_is_given_pixels_only() -> None:
    """``ProcessPages`` and its like open a file by name, and follow lists of names in it."""
    found = []
    for path, tree in TREES.items():
        for name, node in _calls(tree):
            method = name.rpartition(".")[2]
            if method in {"ProcessPages", "ProcessPage", "SetImageFile", "file_to_text", "image_to_text"}:
                found.append(f"{path}:{node.lineno}")
    assert found == []


def test_loguru_shows_no_values_in_tracebacks() -> None:
    """``diagnose`` is on unless it is turned off, and prints every local variable."""
    adding = [(path, node) for path, tree in TREES.items() for name, node in _calls(tree) if name == "logger.add"]
    assert adding
    for path, node in adding:
        words = {word.arg: ast.unparse(word.value) for word in node.keywords}
        assert words.get("diagnose") == "False", path
        assert words.get("backtrace") == "False", path


def test_nobody_else_runs_the_statements_of_the_queue() -> None:
    """A statement that moves or changes there is found by its class, not by whoever else has opened the folder."""
    found = {
        path
        for path, tree in TREES.items()
        for name, node in _calls(tree)
        if name.rpartition(".")[2] == "SqlFolder" and ast.unparse(node.args[0]) == "'batchproc.queue'"
    }
    assert {path for path in found if not path.startswith("queue/")} == _STATEMENTS_OF_THE_QUEUE
    assert len(found) > 20


def test_the_table_of_jobs_is_the_queues() -> None:
    files = [path.relative_to(PACKAGE).as_posix() for path in [*FILES, *PACKAGE.rglob("*.sql")] if _names_jobs(path)]
    assert {path for path in files if not path.startswith(("queue/", "ops/bench/"))} == _LOOKING_AT_JOBS
    assert len(files) > 50


def _names_jobs(path: Path) -> bool:
    return "processing_jobs" in path.read_text("utf-8")


def test_built_in_kinds_are_named_in_one_place() -> None:
    """Where a kind is told from others, made or defined; ``ocr`` is also a state of pages and a section."""
    found = [
        f"{path}:{node.lineno} {ast.unparse(node)[:80]}"
        for path, tree in TREES.items()
        if path != "core/kinds.py"
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AnnAssign | ast.Compare | ast.Call) and _names_kind(node)
    ]
    assert found == []


def _names_kind(node: ast.Assign | ast.AnnAssign | ast.Compare | ast.Call) -> bool:
    match node:
        case (
            ast.Assign(value=ast.Constant() | ast.Tuple() | ast.List() | ast.Set() as value)
            | ast.AnnAssign(value=ast.Constant() as value)
        ):
            named = _strings(value)
            return bool(named) and named <= _KINDS
        case ast.Compare():
            return "kind" in ast.unparse(node.left) and bool(_strings(*node.comparators) & _KINDS)
        case ast.Call():
            is_of_kinds = ast.unparse(node.func).rpartition(".")[2] in {"handler", "follow_up", "KindSpec"}
            given = [word.value for word in node.keywords if word.arg in {"kind", "kinds"}]
            return bool(_strings(*given, *(node.args[:1] if is_of_kinds else ())) & _KINDS)
    return False


def _strings(*nodes: ast.AST) -> set[str]:
    """The texts that are written there, themselves or as the items of a list."""
    listed = [item for node in nodes for item in (node, *getattr(node, "elts", ()))]
    return {item.value for item in listed if isinstance(item, ast.Constant) and isinstance(item.value, str)}
