"""The names of the built-in kinds, for what tells them apart without importing their handlers."""

from __future__ import annotations

from typing import Final

OCR: Final = "ocr"
CLASSIFY: Final = "classify"
WORKFLOW: Final = "workflow"
