"""Which of Tesseract's languages are written in Latin letters, upright and with an accent at most."""

from __future__ import annotations

from typing import Final

_NAMES: Final = """
afr aze bos bre cat ceb ces cos cym dan deu eng enm epo est eus fao fil fin fra frm fry gla gle glg hat hrv hun ind
isl ita ita_old jav lat lav lit ltz mlt mri msa nld nor oci pol por que ron script/Latin slk slv spa spa_old sqi
srp_latn sun swa swe tgl ton tur uzb yor
"""

LATIN: Final = frozenset(_NAMES.split())
"""Not among them: Vietnamese, with two marks on a letter, and Fraktur."""
