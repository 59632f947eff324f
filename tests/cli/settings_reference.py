"""The table of all settings in ``docs/settings.md``, made from the models; run as a module it writes it there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from batchproc.settings import KindOverride, Settings
from tests.cli.documentation import REPO

PAGE = REPO / "batchproc" / "docs" / "settings.md"
MARK = "<!-- made by: python -m tests.cli.settings_reference -->\n"


def reference() -> str:
    """A table for each section, in the order of the models."""
    lines: list[str] = []
    for name, info in Settings.model_fields.items():
        section = info.annotation
        lines.append(f"\n### {name}\n")
        about = None
        if isinstance(section, type) and issubclass(section, BaseModel):
            about = (section.__doc__ or "").strip().splitlines()[0]
        if about:
            lines.append(f"{about}\n")
        rows = list(_rows(name, section, info.get_default(call_default_factory=True), info.description))
        lines += ["| setting | default | means |", "|---|---|---|", *rows]
    lines.append("\n### kinds, of each kind\n\nWhat is not given is as its handler says.\n")
    lines += ["| setting | means |", "|---|---|"]
    lines += [f"| `{name}` | {_cell(info.description)} |" for name, info in KindOverride.model_fields.items()]
    return "\n".join(lines) + "\n"


def _rows(key: str, model: Any, default: Any, description: str | None) -> Iterator[str]:
    if isinstance(default, BaseModel):
        for name, info in type(default).model_fields.items():
            label = info.alias or name
            yield from _rows(f"{key}.{label}", info.annotation, getattr(default, name), info.description)
        return
    yield f"| `{key}` | {_shown(default)} | {_cell(description)} |"


def _shown(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple | list | dict):
        return f"`{list(map(str, value))}`".replace("'", "") if value else "none"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`"


def _cell(text: str | None) -> str:
    return (text or "").replace("|", "\\|")


def written() -> str:
    """The page as it should be."""
    return PAGE.read_text("utf-8").split(MARK)[0] + MARK + reference()


if __name__ == "__main__":
    PAGE.write_text(written(), "utf-8")
