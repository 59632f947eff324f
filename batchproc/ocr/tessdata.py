"""Tesseract's language files, in several folders."""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from batchproc.ocr.engine import named
from batchproc.ocr.errors import OcrFailure

SUFFIX: Final = ".traineddata"
ORIENTATION: Final = "osd"
_NO_LANGUAGES: Final = frozenset({ORIENTATION, "equ"})


def default_folder() -> Path:
    """Where the language packages of the registry put their files."""
    return Path(sys.prefix) / "share" / "tessdata"


class Tessdata:
    """Folders of language files, merged: of files for the same language the first folder's counts.

    Args:
        folders: `<language>.traineddata` and `script/<Script>.traineddata`; none means `default_folder()`.
    """

    def __init__(self, folders: Sequence[Path] = ()) -> None:
        self._files: dict[str, Path] = {}
        self._hashes: dict[str, str] = {}
        for folder in reversed(folders or (default_folder(),)):
            for file in [*folder.glob("*" + SUFFIX), *folder.glob("script/*" + SUFFIX)]:
                self._files[file.relative_to(folder).as_posix().removesuffix(SUFFIX)] = file

    def languages(self) -> set[str]:
        """Names as Tesseract takes them: "deu", "chi_sim", "script/Latin"."""
        return set(self._files) - _NO_LANGUAGES

    def has_orientation(self) -> bool:
        return ORIENTATION in self._files

    def hash_of(self, languages: Sequence[str]) -> str:
        """A SHA-256 over the names and contents of these languages' files, whatever their order.

        Raises:
            OcrFailure: `missing_language`.
        """
        self.require(languages)
        lines = [f"{language} {self._file_hash(language)}\n" for language in sorted(set(languages))]
        return hashlib.sha256("".join(lines).encode()).hexdigest()

    def require(self, languages: Sequence[str]) -> None:
        """Raises OcrFailure `missing_language` unless there is a file for each."""
        missing = [language for language in languages if language not in self._files]
        if missing or not languages:
            raise OcrFailure("missing_language", f"no language data for {named(missing) or 'no language at all'}")

    @contextmanager
    def folder_with(self, languages: Sequence[str]) -> Iterator[Path]:
        """One folder that holds all these languages. Tesseract reads it whole while it loads, so it may be short-lived.

        Raises:
            OcrFailure: `missing_language`.
        """
        self.require(languages)
        folders = {self._folder_of(language) for language in languages}
        if len(folders) == 1:
            yield folders.pop()
            return
        with tempfile.TemporaryDirectory(prefix="batchproc-tessdata-") as merged:
            for language in languages:
                link = Path(merged, language + SUFFIX)
                link.parent.mkdir(exist_ok=True)
                link.symlink_to(self._files[language].absolute())
            yield Path(merged)

    def _folder_of(self, language: str) -> Path:
        return self._files[language].parents[language.count("/")]

    def _file_hash(self, language: str) -> str:
        if language not in self._hashes:
            with self._files[language].open("rb") as file:
                self._hashes[language] = hashlib.file_digest(file, "sha256").hexdigest()
        return self._hashes[language]
