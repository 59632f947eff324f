"""Where the files are that come with the package."""

from __future__ import annotations

from pathlib import Path


def packaged_conf() -> Path:
    """The folder with batchproc.yaml, taxonomy/ and workflows/: ``conf`` of a checkout, else inside the package."""
    package = Path(__file__).resolve().parent
    checkout = package.parent / "conf"
    if (package.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    return package / "conf"
