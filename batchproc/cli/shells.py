"""What a shell tells of the line that it completes, where click does not take it as it is meant."""

from __future__ import annotations

from click.shell_completion import BashComplete


class Bash(BashComplete):
    """bash, which makes three words of ``--tenant=acme``."""

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is completed, and what there is of it."""
        words, incomplete = super().get_completion_args()
        joined: list[str] = []
        for word in words:
            before = joined[-1] if joined else ""
            is_value = before.startswith("--") and before.endswith("=")
            if is_value or (word == "=" and before.startswith("--") and "=" not in before):
                joined[-1] += word
            else:
                joined.append(word)
        if joined and joined[-1].startswith("--") and joined[-1].endswith("="):
            joined[-1] = joined[-1][:-1]
        return joined, incomplete
