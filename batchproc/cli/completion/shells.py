"""What a shell tells of the line that it completes, where click does not take it as it is meant."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from click.shell_completion import (
    BashComplete,
    CompletionItem,
    FishComplete,
    ShellComplete,
    ZshComplete,
    split_arg_string,
)

from batchproc.core.errors import UsageError

VARIABLE = "_BATCHPROC_COMPLETE"
"""By which click knows, when the script calls the program, that it is asked for completions (its documentation, "Shell
Completion")."""

_CURSOR = "\0"
"""Where the cursor is in the line; no line holds it."""

_BASH = """\
%(complete_func)s() {
    local type value
    COMPREPLY=()
    while IFS=, read -r type value; do
        case $type in
        dir) compopt -o dirnames ;;
        file) compopt -o default ;;
        plain) COMPREPLY+=("$value") ;;
        esac
    done < <(
        env COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORD="$2" %(complete_var)s=bash_complete "${1/#~\\//$HOME/}"
    )
}
complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class Bash(BashComplete):
    """bash, which makes seven words of ``--database=postgresql://me@host/db``, and completes the last of them.

    So its script tells of the line up to the cursor, in COMP_LINE, and of the word that bash replaces, in COMP_WORD.
    """

    source_template = _BASH

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and what there is of it."""
        *before, last = split_arg_string(os.environ["COMP_LINE"] + _CURSOR)
        return before[1:], last.removesuffix(_CURSOR)

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem[str]]:
        """What stands in place of the word that bash replaces; of ``--tenant=acme`` that is ``acme``."""
        replaced = os.environ["COMP_WORD"]
        kept = len(incomplete) - len(replaced) if incomplete.endswith(replaced) else 0
        is_value = incomplete.startswith("-") and "=" in incomplete
        option = incomplete[: incomplete.index("=") + 1] if is_value else ""
        found = super().get_completions(args, incomplete)
        for item in found:
            item.value = f"{option}{item.value}"[kept:]
        return found


SHELLS: dict[str, type[ShellComplete]] = {"bash": Bash, "zsh": ZshComplete, "fish": FishComplete}
"""Those that there are completions for."""


def check(environ: Mapping[str, Any]) -> None:
    """Nothing, where no completions are asked for, or as a shell's script asks for them.

    Raises:
        UsageError: they are asked for in another way; click would end with a traceback, or without a word.
    """
    if not (asked := environ.get(VARIABLE)):
        return
    shell, _, what = asked.partition("_")
    line = ("COMP_LINE", "COMP_WORD") if shell == "bash" else ("COMP_WORDS", "COMP_CWORD")
    is_number = shell != "zsh" or environ.get("COMP_CWORD", "").isdecimal()
    if shell not in SHELLS or what not in ("complete", "source"):
        problem = f"{VARIABLE} asks for the completions of no shell that there are any for"
    elif what == "complete" and not (is_number and all(name in environ for name in line)):
        problem = f"{VARIABLE} is set, but {' and '.join(line)} do not tell of a line that {shell} completes"
    else:
        return
    raise UsageError(problem, "unset it; what a shell needs is printed by: batchproc completion bash")
