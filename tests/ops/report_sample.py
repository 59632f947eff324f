"""A report on a night that had everything, for looking at its page."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

from batchproc.ops.campaign_result import CampaignResult, Confidences
from batchproc.ops.report.model import (
    FailureExample,
    FailureGroup,
    KindWork,
    Report,
    Retried,
    SlowDocument,
    Stretch,
    Subject,
    TenantWork,
)

START = datetime(2026, 11, 28, 22, 0, tzinfo=UTC)
SECONDS = 7.9 * 3600
HOSTILE = "/srv/<script>alert(1)</script>/\x1b[2J$x_1$&amp;\u202eabc/" + "long-" * 30 + ".pdf"
"""A file name that would be code in a page, move a terminal's cursor, be taken for mathematics, turn text round."""


def sample() -> Report:
    """Eight hours of eight workers for twenty tenants."""
    width = 600.0
    stretches = tuple(_stretch(number, width) for number in range(math.ceil(SECONDS / width)))
    kinds = tuple(
        KindWork(
            kind,
            jobs=sum(stretch.completed.get(kind, 0) for stretch in stretches),
            attempts=sum(stretch.completed.get(kind, 0) for stretch in stretches) + 20,
            completed=sum(stretch.completed.get(kind, 0) for stretch in stretches),
            discarded=sum(stretch.discarded for stretch in stretches) if kind == "ocr" else 0,
            pages=sum(stretch.pages for stretch in stretches) if kind == "ocr" else 0,
            failed_pages=31 if kind == "ocr" else 0,
            seconds=sum(stretch.busy.get(kind, 0) for stretch in stretches),
        )
        for kind in ("ocr", "workflow", "classify")
    )
    return Report(
        subject=Subject(
            name="run 412",
            id=412,
            command=None,
            started_at=START,
            finished_at=START + timedelta(seconds=SECONDS),
            goes_on=False,
            seconds=SECONDS,
            exit_code=1,
            slots=8,
            counts={"claimed": 26000, "completed": sum(kind.completed for kind in kinds), "discarded": 143},
            left=18_220,
        ),
        kinds=kinds,
        tenants=tuple(_tenant(number) for number in range(20)),
        width=width,
        stretches=stretches,
        failures=_failures(),
        failure_groups=9,
        retried=(Retried("ocr", "timeout", 14, 8400.0), Retried("workflow", "internal_error", 3, 2.5)),
        slowest=tuple(
            SlowDocument("stadtwerke", 9000 + number, path, "partial", None, 2, 400 - number, 3600.0 - 200 * number)
            for number, path in enumerate((HOSTILE, "/srv/archive/2021/atlas.pdf", "/srv/archive/b.tif"))
        ),
        result=CampaignResult(
            documents=8000,
            pages=31_000,
            first_texts=1200,
            became_current=7800,
            current=7800,
            words_before=9_000_000,
            words_gained=240_000,
            words_lost=31_000,
            confidences=Confidences(
                up=5200,
                down=700,
                same=800,
                comparable=6000,
                points_up=23_400.0,
                points_down=1_900.0,
                changes=[20, 60, 110, 460, 750, 1600, 1400, 1000, 600],
                changes_of_others=[0, 5, 15, 30, 50, 250, 200, 100, 50],
            ),
        ),
    )


def _stretch(number: int, width: float) -> Stretch:
    busy = 7.4 if number not in (20, 21) else 2.0
    wave = 1 + 0.25 * math.sin(number / 4)
    return Stretch(
        at=number * width,
        completed={"ocr": round(180 * wave), "classify": round(170 * wave), "workflow": round(160 * wave)},
        discarded=3,
        pages=round(700 * wave),
        busy={"ocr": busy * width, "classify": 0.3 * width, "workflow": 0.15 * width},
    )


def _tenant(number: int) -> TenantWork:
    slug = "stadtwerke-weimar-nord" if number == 3 else f"tenant-{number:02}"
    longest = 5400.0 / (number + 1)
    lane = "interactive" if number == 5 else "bulk"
    return TenantWork(slug, lane, 1300 - 20 * number, 1290, 10, 4100, 2, 9000.0, longest / 4, longest / 1.5, longest)


def _failures() -> tuple[FailureGroup, ...]:
    example = FailureExample(17, "ocr", 4, HOSTILE, "pdfium cannot open <b>it</b>\nrun 1: all well")
    codes = ("unreadable_file", "encrypted", "empty_file", "timeout", "unsupported_type")
    failed = [
        FailureGroup(f"tenant-{number:02}", code, False, 60 // (number + 1), 0, "scan or upload it again", (example,))
        for number, code in enumerate(codes)
    ]
    return (*failed, FailureGroup("stadtwerke", "timeout", True, 12, 31, "look at it", (example, example)))
