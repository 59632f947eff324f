"""A run tells of accepted codes that nobody declares: a misspelt one would else fail every night without a reason."""

from __future__ import annotations

from loguru import logger

from batchproc.ops import summary
from tests.engine.running import Bench


def test_a_run_warns_at_its_start_and_in_its_summary(bench: Bench) -> None:
    lines: list[str] = []
    sink = logger.add(lines.append, level="WARNING", format="{message}")
    try:
        report = bench.run(run={"accept_codes": ["encryptd", "encrypted", "timeout"]})
    finally:
        logger.remove(sink)
    told = "run.accept_codes: no kind declares the failure code encryptd: encrypted is the nearest"
    assert report.warnings == (told,)
    assert [line.strip() for line in lines] == [told]
    first, last = summary.lines(report, [], ())
    assert first == f"warning: {told}"
    assert last.endswith("exit 0")
