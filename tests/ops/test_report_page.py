"""The page of a report: it needs nothing else, names are only text in it, and people can read it wherever they are.

What it looks like is measured in a real browser, where there is one, as on a phone and on a desk, light and dark.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from PIL import Image, ImageStat

from batchproc.ops.campaign_result import SAME, CampaignResult, Confidences
from batchproc.ops.report import html
from batchproc.ops.report.charts import charts
from batchproc.ops.report.gathering import stretch_width
from batchproc.ops.report.local_time import LocalTime
from batchproc.ops.report.model import FailureGroup, Report
from batchproc.ops.report.svg import BAD, drawn
from batchproc.ops.report.words import head, verdict
from tests.ops.browser import CHROMIUM, Browser, browser
from tests.ops.report_sample import HOSTILE, sample

PHONE, DESK = 390, 1200

# CSS pixels: below about 11 a label cannot be read at arm's length.
LEAST_TEXT = 11.0

TEXTS_OF_CHARTS = """
    [...document.querySelectorAll('svg text')]
        .filter(text => text.textContent.trim() && text.getBoundingClientRect().height > 0)
        .map(text => {
            const scale = text.getScreenCTM();
            return {
                text: text.textContent,
                size: parseFloat(getComputedStyle(text).fontSize) * Math.hypot(scale.a, scale.b),
                color: getComputedStyle(text).fill,
            };
        })
"""
CUT_OFF = """
    [...document.querySelectorAll('svg text')]
        .filter(text => text.textContent.trim() && text.getBoundingClientRect().height > 0)
        .filter(text => {
            const box = text.getBoundingClientRect();
            return box.left < 0 || box.right > document.documentElement.clientWidth + 0.5;
        })
        .map(text => text.textContent)
"""
PAPER = "getComputedStyle(document.body).backgroundColor"


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("report") / "report.html"
    file.write_text(html(sample()), "utf-8")
    return file


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no Chromium here")
    with browser(tmp_path_factory.mktemp("profile")) as running:
        yield running


class Elements(HTMLParser):
    """All elements with their attributes, and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_needs_nothing_else_and_runs_nothing(page: Path) -> None:
    elements = Elements(page.read_text("utf-8"))
    assert not {tag for tag, _ in elements.found} & {
        "script",
        "link",
        "img",
        "iframe",
        "object",
        "base",
        "form",
        "image",
    }
    for tag, attributes in elements.found:
        assert not [name for name in attributes if name.startswith("on")], tag
        assert (attributes.get("href") or "#").startswith("#"), (tag, attributes)
        assert "src" not in attributes
    assert not re.search(r"@import|url\((?!#)", page.read_text("utf-8"))
    [policy] = [a["content"] for _, a in elements.found if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == "default-src 'none'; style-src 'unsafe-inline'"


def test_a_hostile_file_name_is_only_text(page: Path) -> None:
    elements = Elements(page.read_text("utf-8"))
    assert "<script>alert(1)</script>" in elements.text
    assert r"\x1b[2J$x_1$&amp;\u202eabc" in elements.text
    assert "<b>it</b>" in elements.text
    assert not {"\x1b", "\u202e"} & set(elements.text)
    assert HOSTILE not in elements.text


def test_every_chart_has_the_pages_own_colours_and_ids_of_its_own(page: Path) -> None:
    text = page.read_text("utf-8")
    assert not re.search(r"#0[1234]0[1234]0[1-6]\b", text), "a stand-in for a colour is left"
    ids = re.findall(r'\bid="([^"]+)"', text)
    assert len(ids) == len(set(ids))
    for used in re.findall(r'(?:href="|url\()#([^")]+)', text):
        assert used in ids
    drawings = [attributes for tag, attributes in Elements(text).found if tag == "svg"]
    assert len(drawings) == 10, "five charts, each wide and narrow"
    assert all(drawing["role"] == "img" and drawing["aria-label"] for drawing in drawings)
    for variable in set(re.findall(r"var\((--[\w-]+)\)", text)):
        assert text.count(f"{variable}: ") == 2, f"{variable} is for light and for dark"


def test_the_same_chart_is_drawn_the_same_again() -> None:
    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot([0, 1], [0, 1], "o", color=BAD, label="$x_1$ <b>")
        axes.legend()

    first, again = (drawn(draw, "some", 'a "label" <b>', (3, 2)) for _ in range(2))
    assert first == again
    assert ">$x_1$ &lt;b&gt;</text>" in first
    assert 'aria-label="a &#34;label&#34; &lt;b&gt;"' in first


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [PHONE, DESK])
def test_it_can_be_read_in_a_browser(page: Path, opened: Browser, width: int, scheme: str) -> None:
    opened.show(page, width, dark=scheme == "dark")

    assert opened.ask("document.documentElement.scrollWidth") <= width, "it scrolls sideways"
    texts = opened.ask(TEXTS_OF_CHARTS)
    assert {"jobs a minute", "busy workers", "unreadable_file", "up by 10 or more"} <= {text["text"] for text in texts}
    assert [text for text in texts if text["size"] < LEAST_TEXT] == []
    assert opened.ask(CUT_OFF) == []
    paper = _rgb(opened.ask(PAPER))
    assert min(_contrast(_rgb(text["color"]), paper) for text in texts) >= 7, "WCAG 2.2, 1.4.6"
    assert opened.requested == [page.as_uri()]
    assert opened.complaints == []
    picture = Image.open(io.BytesIO(opened.picture())).convert("L")
    brightness = ImageStat.Stat(picture).median[0]
    assert brightness > 230 if scheme == "light" else brightness < 40
    assert sum(1 for pixels in picture.histogram() if pixels) > 50, "there is something on it"


def test_bars_that_touch_have_no_seams_between_them(page: Path, opened: Browser) -> None:
    opened.show(page, DESK, dark=True)
    bars = "[...document.querySelectorAll('svg[aria-label^=Use] [id*=-patch_] path')]"
    shapes = opened.ask(f"{bars}.map(bar => getComputedStyle(bar).shapeRendering)")
    assert len(shapes) > 40
    assert set(shapes) == {"crispedges"}


def test_a_chart_of_the_other_width_is_not_shown(page: Path, opened: Browser) -> None:
    shown = "[...document.querySelectorAll('figure svg')].filter(e => e.getBoundingClientRect().width > 0).length"
    for width in (PHONE, DESK):
        opened.show(page, width, dark=False)
        assert opened.ask(shown) == 5


def _rgb(color: str) -> tuple[float, ...]:
    return tuple(float(part) for part in re.findall(r"[\d.]+", color)[:3])


def _contrast(one: tuple[float, ...], other: tuple[float, ...]) -> float:
    """The contrast ratio of two colours as WCAG 2.2 defines it: 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(color: tuple[float, ...]) -> float:
    parts = [value / 255 for value in color]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


# -- reports of which there is little to tell


def reduced(**fields: Any) -> Report:
    empty: dict[str, Any] = {
        "kinds": (),
        "tenants": (),
        "stretches": (),
        "failures": (),
        "failure_groups": 0,
        "retried": (),
        "slowest": (),
        "result": CampaignResult(),
    }
    return replace(sample(), **(empty | fields))


def test_a_run_that_did_nothing_has_a_page() -> None:
    text = Elements(html(reduced())).text
    assert "It has worked on no job." in text
    assert "Throughput" not in text


def test_a_run_of_one_quick_job_has_a_page() -> None:
    night = sample()
    subject = replace(night.subject, seconds=0.02, slots=None, exit_code=None, finished_at=None)
    text = html(
        reduced(
            subject=subject,
            kinds=night.kinds[:1],
            tenants=night.tenants[:1],
            stretches=night.stretches[:1],
            width=stretch_width(0.02),
        )
    )
    assert "never said that it ended" in text
    assert "workers' time used" not in text


def test_a_page_tells_of_jobs_that_were_retried_since() -> None:
    plain = "<p>retried since: {} of the jobs given up on; what came of {}: batchproc jobs show ID.</p>"
    for retried, told in ((1, plain.format("1", "it")), (1200, plain.format("1,200", "each"))):
        kinds = (replace(sample().kinds[0], retried=retried),)
        assert told in html(reduced(kinds=kinds, stretches=sample().stretches[:1]))
    assert "retried since" not in html(reduced())


def test_a_run_that_goes_on_counts_what_it_has_attempted() -> None:
    night = sample()
    subject = replace(night.subject, finished_at=None, goes_on=True, exit_code=None, counts={}, left=None)
    going_on = reduced(subject=subject, kinds=night.kinds)
    assert verdict(going_on) == "It goes on since 7 h 54 min."
    figures = dict(head(going_on))
    assert (figures["given up on"], "left" in figures) == ("144", False)


def test_the_legend_of_the_failures_names_what_there_is() -> None:
    group = sample().failures[0]
    failed, partial = replace(group, partial=False), replace(group, partial=True, failure_code="stalled")

    def legend(*groups: FailureGroup) -> set[str]:
        chart = charts(reduced(failures=groups), ("failures",))["failures"]
        return set(re.findall(r">(jobs given up on|partial documents)</text>", chart.wide))

    assert legend(failed) == {"jobs given up on"}
    assert legend(partial) == {"partial documents"}
    assert legend(failed, partial) == {"jobs given up on", "partial documents"}


def test_times_of_charts_follow_a_change_of_the_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    night, width = sample(), 600.0
    start = datetime(2026, 10, 24, 22, 0, tzinfo=UTC)  # it is midnight, and three hours later two o'clock
    stretches = tuple(replace(night.stretches[0], at=number * width) for number in range(36))
    report = reduced(
        subject=replace(night.subject, started_at=start, seconds=6 * 3600),
        kinds=night.kinds[:1],
        stretches=stretches,
        width=width,
    )
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    chart = charts(report, ("throughput",))["throughput"]
    monkeypatch.undo()
    time.tzset()
    assert chart.about.endswith("times in CEST, then CET.")
    places = _places(chart.wide)
    hour = places["02:00"] - places["01:00"]
    assert (places["03:00"] - places["02:00"]) / hour == pytest.approx(2, abs=0.1), "two o'clock is there twice"
    assert (places["04:00"] - places["03:00"]) / hour == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize("zone", ["Europe/Berlin", "CET-1CEST,M3.5.0,M10.5.0/3", "America/Sao_Paulo", "UTC"])
def test_local_time_is_what_the_clocks_show_at_every_moment(monkeypatch: pytest.MonkeyPatch, zone: str) -> None:
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        for day in (datetime(2026, 3, 28, tzinfo=UTC), datetime(2026, 10, 24, tzinfo=UTC)):
            for hours in range(48):
                moment = day + timedelta(hours=hours)
                local = moment.astimezone(LocalTime())
                expected = moment.astimezone()
                assert (local.utcoffset(), local.tzname()) == (expected.utcoffset(), expected.tzname())
                assert local.replace(tzinfo=None) == expected.replace(tzinfo=None)
                assert local.astimezone(UTC) == moment
    finally:
        monkeypatch.undo()
        time.tzset()


def _places(chart: str) -> dict[str, float]:
    """Where the labels of the time axis stand, from the left."""
    found = re.findall(r'<text[^>]*?(?:x="([\d.]+)"[^>]*?|translate\(([\d.]+)[^>]*?)>(\d\d:\d\d)</text>', chart)
    return {text: float(left or moved) for left, moved, text in found}


def _texts(chart: str) -> list[str]:
    return re.findall(r">([^<>]+)</text>", chart)


def test_what_changed_of_confidences_is_counted_by_how_much() -> None:
    """Nothing that did not change can look as if it were better."""
    result = CampaignResult(documents=7, confidences=Confidences(same=6, unknown=1, comparable=6))
    result.confidences.changes[SAME] = 6
    chart = charts(reduced(result=result), ("confidence",))["confidence"]
    assert "0 higher, 0 lower, 6 the same" in chart.about
    counts, names = [text for text in _texts(chart.wide) if text.isdigit()], _texts(chart.wide)
    assert counts[-9:] == ["0", "0", "0", "0", "6", "0", "0", "0", "0"], "from those that are up most"
    assert [name for name in names if re.match("up|the same|down", name)] == [
        *("up by 10 or more", "up by 5 to 10", "up by 2 to 5", "up by less than 2", "the same"),
        *("down by less than 2", "down by 2 to 5", "down by 5 to 10", "down by 10 or more"),
    ]
    assert "read by other means" not in names


def test_what_is_not_of_one_scale_is_set_apart() -> None:
    chart = charts(sample(), ("confidence",))["confidence"]
    assert "read by other means" in _texts(chart.wide)
    assert "5,200 higher (by 4.5 on average), 700 lower (by 2.7 on average), 800 the same" in chart.about
    assert "700 of them were read by another engine or with other data than before: not one scale" in chart.about
    assert {"650", "800", "20"} <= set(_texts(chart.wide)), "the bars count all of them"


@pytest.mark.parametrize(
    ("seconds", "each", "highest"), [(600.0, "in 15 s", 8), (3000.0, "a minute", 6)], ids=["10 min", "50 min"]
)
def test_a_stretch_of_seconds_is_not_told_as_a_minute(seconds: float, each: str, highest: int) -> None:
    night, width = sample(), stretch_width(seconds)
    stretch = replace(night.stretches[0], completed={"ocr": 3}, pages=7)
    stretches = tuple(replace(stretch, at=number * width) for number in range(40))
    report = replace(night, subject=replace(night.subject, seconds=seconds), stretches=stretches, width=width)
    texts = _texts(charts(report, ("throughput",))["throughput"].wide)
    assert [text for text in texts if text.startswith(("jobs ", "pages "))] == [f"jobs {each}", f"pages {each}"]
    assert max(int(text) for text in texts if text.isdigit()) <= highest, "3 jobs and 7 pages, in each stretch"


def test_pages_a_minute_are_told_of_no_less_than_a_minute() -> None:
    night = sample()
    told = {s: dict(head(replace(night, subject=replace(night.subject, seconds=s)))) for s in (4.0, 59.9, 60.0)}
    assert [figures.get("pages a minute") for figures in told.values()] == [None, None, f"{night.pages:,.1f}"]
    assert {figures["pages"] for figures in told.values()} == {f"{night.pages:,}"}


def test_a_run_of_four_seconds_has_more_than_one_time_on_a_phone() -> None:
    stretches = tuple(replace(sample().stretches[0], at=number * 0.1) for number in range(40))
    chart = charts(replace(sample(), stretches=stretches, width=0.1), ("slots",))["slots"]
    assert {"02", "04"} <= set(_texts(chart.narrow))


def test_more_kinds_than_colours_are_told_as_others() -> None:
    night = sample()
    kinds = tuple(replace(night.kinds[0], kind=f"kind_{number}") for number in range(9))
    stretches = tuple(replace(stretch, busy={kind.kind: 60.0 for kind in kinds}) for stretch in night.stretches[:4])
    chart = charts(reduced(kinds=kinds, stretches=stretches), ("slots",))["slots"]
    shown = set(re.findall(r">(kind_\d|others)</text>", chart.wide))
    assert shown == {*(f"kind_{number}" for number in range(5)), "others"}


@pytest.mark.parametrize(
    ("seconds", "width"), [(0, 0.1), (4, 0.1), (48, 1), (49, 2), (7.9 * 3600, 600), (30 * 86400, 86400), (1e8, 2160000)]
)
def test_a_time_has_at_most_48_stretches_of_a_length_with_a_name(seconds: float, width: float) -> None:
    assert stretch_width(seconds) == width
    assert seconds / width <= 48


@pytest.mark.parametrize("seconds", [105, 105 * 60, 47.5 * 3600])
def test_times_of_runs_of_nearly_two_units_are_drawn_without_a_word(seconds: float) -> None:
    """A warning of matplotlib, an error here, would be on stderr: for cron a mail."""
    report = sample()
    width = seconds / len(report.stretches)
    stretches = tuple(replace(stretch, at=n * width) for n, stretch in enumerate(report.stretches))
    assert charts(replace(report, width=width, stretches=stretches), ("throughput",))
