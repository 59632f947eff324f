from __future__ import annotations

import pytest

from batchproc.ocr.recall import word_recall


@pytest.mark.parametrize(
    ("truth", "text", "recall"),
    [
        ("One two, three.", "three TWO one", 1.0),
        ("a a b", "a b", 2 / 3),
        ("a b", "a a a", 0.5),
        ("", "whatever", 1.0),
        ("words", "", 0.0),
        ("Bäume", "Ba\u0308ume", 1.0),
    ],
)
def test_recall_counts_words_as_often_as_they_occur(truth: str, text: str, recall: float) -> None:
    assert word_recall(truth, text) == pytest.approx(recall)
