"""The HTML report: a page that holds together, whatever names and however many partitions it is made of."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from kafkalog_cli.render.report import data as report_data
from kafkalog_cli.render.report import page as report_page
from kafkalog_cli.render.report.charts import FindingAnchors, segment_map, timeline
from kafkalog_cli.render.report.data import RunFacts, lost_count, partition_map
from kafkalog_cli.render.report.page import HtmlReport
from kafkalog_core.engine.report import Report
from kafkalog_core.findings import FINDING_TYPES, Finding
from kafkalog_core.ops.verify.engine import count
from kafkalog_core.ops.verify.verdict import OffsetGap, PartitionVerdict, PlaceVerdict, SegmentVerdict

VOID = {"meta", "input", "br"}
T0 = 1_700_000_000_000
HOSTILE = "<script>alert(1)</script>\"'><img src=x onerror=alert(2)>&amp;\udcff\u202e\n`"
MAX_INT64 = 2**63 - 1


def segment(base_offset=0, last_offset=99, *, path="/data/orders-0", **fields):
    values = {
        "path": f"{path}/{base_offset:020}.log",
        "base_offset": base_offset,
        "size_bytes": 10_000,
        "is_last": False,
        "mtime_ms": T0,
        "batches": 10,
        "records": 100,
        "first_offset": base_offset,
        "last_offset": last_offset,
        "first_timestamp_ms": T0 + base_offset * 1000,
        "max_timestamp_ms": T0 + last_offset * 1000,
        "formats": ("v2",),
        "epochs": (),
        "is_thinned": False,
        "gaps": (),
        "gap_count": 0,
        "damage": (),
        "lost_offsets": (),
        "findings": (),
    }
    return SegmentVerdict(**(values | fields))


def finding(code="batch.crc-mismatch", severity="error", path="/data/orders-0/00000000000000000100.log", **fields):
    values = {
        "message": "The batch is damaged.",
        "topic": "orders",
        "partition": 0,
        "broker_action": "Cuts the log here.",
        "cure": "Copy the partition from a healthy replica.",
    }
    return Finding(code=code, severity=severity, path=path, **(values | fields))


def partition(*segments, name="orders-0", findings=(), **fields):
    values = {
        "path": f"/data/{name}",
        "topic": name.rpartition("-")[0],
        "partition": 0,
        "segments": segments,
        "findings": findings,
        "log_start_offset": segments[0].base_offset if segments else None,
        "log_end_offset": (segments[-1].last_offset or 0) + 1 if segments else None,
        "at_risk_bytes": None,
    }
    return PartitionVerdict(**(values | fields))


def damaged(name="orders-0", **fields):
    """Three segments, the second one damaged in its first tenth and without its last offsets."""
    path = f"/data/{name}"
    middle = segment(100, 189, path=path, damage=((0, 1000),), lost_offsets=((100, 109),))
    last = segment(200, 299, path=path, is_last=True)
    problem = finding(path=middle.path, position=0, size_bytes=1000, offset=100)
    return partition(segment(path=path), middle, last, name=name, findings=(problem,), **fields)


class Kept:
    """A file that keeps what is written."""

    def __init__(self):
        self.text = ""

    def write(self, pieces):
        self.text = "".join(pieces)


def page_of(*verdicts, level="records", selection="", targets=("/data",)):
    facts = RunFacts(version="0.1", level=level, targets=targets, selection=selection, started_ms=T0)
    kept, counts = Kept(), Report()
    writer = HtmlReport(kept, facts, lambda: T0 + 2500)
    for verdict in verdicts:
        count(verdict, counts)
        writer.write(verdict)
    writer.finish(counts.summary_row())
    return Page(kept.text)


class Page(HTMLParser):
    """Parses a page, and fails where its elements do not close as they were opened."""

    def __init__(self, source):
        super().__init__()
        self.source = source
        self.opened = []
        self.tags = []
        self.ids = []
        self.links = []
        self.attributes = []
        self.words = []
        self.feed(source)
        self.close()
        assert self.opened == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        names = [name for name, _ in attrs]
        assert len(names) == len(set(names))
        for name, value in attrs:
            self.attributes.append((tag, name, value))
            self.ids += [value] if name == "id" else []
            self.links += [value] if name == "href" else []
        if tag not in VOID:
            self.opened.append(tag)

    def handle_endtag(self, tag):
        assert self.opened.pop() == tag

    def handle_data(self, data):
        if self.opened and self.opened[-1] not in {"style", "script"}:
            self.words.append(data)

    @property
    def text(self):
        return " ".join(" ".join(self.words).split())


def check(page):
    """What holds for every page."""
    assert page.source.startswith("<!DOCTYPE html>\n<html lang=")
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert all(link.startswith("#") for link in page.links)
    assert page.tags.count("script") == 1
    assert page.tags.count("h1") == 1
    assert not {"img", "link", "iframe", "object", "base", "form"} & set(page.tags)
    assert not [name for _, name, _ in page.attributes if name.startswith("on") or name in {"src", "style", "srcdoc"}]
    titles = [value for tag, name, value in page.attributes if tag == "th" and name == "scope"]
    assert len(titles) == page.tags.count("th")
    page.source.encode("utf-8")


# --- what stands on it ------------------------------------------------------------------------------------------------
def test_damage():
    page = page_of(damaged(), partition(segment(path="/data/fine-0"), name="fine-0"))
    check(page)
    assert "Damaged: 1 of 2 partitions" in page.text
    assert "1000 B in 1 place of the logs of orders-0 contain no valid batch." in page.text
    assert "Up to 10 records may be lost" in page.text
    assert "Cuts the log here." in page.text
    assert "Copy the partition from a healthy replica." in page.text
    assert FINDING_TYPES["batch.crc-mismatch"].meaning in html.unescape(page.text)
    assert "00000000000000000100.log at byte 0 (1000 B)" in page.text
    for word, sign in (
        ("error", "\N{HEAVY MULTIPLICATION X}"),
        ("damaged", "\N{HEAVY MULTIPLICATION X}"),
        ("clean", "\N{CHECK MARK}"),
    ):
        badge = f'<span class="badge {word}"><span aria-hidden="true">{sign}</span> {word}</span>'
        assert badge in html.unescape(page.source)
    assert "1 clean partition" in page.text


def test_what_keeps_a_broker_from_starting_comes_first():
    problem = finding("dir.not-a-partition", path="/data/lost+found", broker_action="Does not start.")
    page = page_of(damaged(), PlaceVerdict(path="/data", findings=(problem,)))
    check(page)
    assert "A broker does not start on this disk, because of /data/lost+found." in page.text
    codes = [name for name in page.ids if name.startswith("c-")]
    assert codes == ["c-dir.not-a-partition", "c-batch.crc-mismatch"]


def test_a_start_that_depends_is_not_announced():
    problem = finding(broker_action="Does not start where its replay reaches this batch.")
    assert "does not start on this disk" not in page_of(partition(segment(), findings=(problem,))).text


@pytest.mark.parametrize(
    ("verdicts", "title"),
    [
        ([], "There was nothing to check"),
        ([partition(segment())], "No damage: 1 partition checked"),
        ([partition(segment(), findings=(finding(severity="warning"),))], "Warnings: 1 partition without damage"),
        ([PlaceVerdict(path="/data", findings=(finding(path="/data/meta.properties"),))], "Errors"),
        ([PlaceVerdict(path="/data", findings=())], "There was nothing to check"),
        (
            [partition(segment()), PlaceVerdict(path="/data", findings=(finding(path="/data/meta.properties"),))],
            "Errors, but in none of 1 partition",
        ),
        ([partition()], "No damage: 1 partition checked"),
    ],
)
def test_headlines(verdicts, title):
    page = page_of(*verdicts)
    check(page)
    assert f"{title} " in page.text


def test_the_level_and_the_selection_say_what_was_not_checked():
    page = page_of(level="headers", selection="topic 'a<b'")
    check(page)
    assert "no checksum was computed" in page.text
    assert "Everything except topic 'a<b'" in page.text


def test_kafka_07_has_no_times_and_its_offsets_are_bytes():
    times = {"first_timestamp_ms": None, "max_timestamp_ms": None, "formats": ("v07",)}
    old = [
        segment(0, 10_000, **times),
        segment(10_000, 20_000, damage=((0, 5000),), lost_offsets=((10_000, 14_999),), is_last=True, **times),
    ]
    verdict = partition(*old, findings=(finding(path=old[1].path, position=0),))
    assert partition_map(verdict).blocks[1].discontinuity is None
    assert lost_count(verdict) == 0
    page = page_of(verdict)
    check(page)
    assert "no batch has a timestamp" in page.text
    assert "may be lost" not in page.text.partition("How to read this")[0].partition("Partitions")[0]


def test_what_a_crash_leaves_is_not_called_a_loss():
    log = segment(damage=((9000, 1000),), lost_offsets=((100, 120),), is_last=True)
    problem = finding("log.zero-tail", "info", path=log.path, position=9000)
    page = page_of(partition(log, findings=(problem,)))
    check(page)
    assert "No damage: 1 partition checked 1000 B in 1 place contain no batch. This is normal" in page.text
    assert "may be lost:" not in page.text


# --- maps and timelines -----------------------------------------------------------------------------------------------
def _shapes(markup, kind):
    """x and width of rectangles."""
    found = re.findall(rf'<rect x="([\d.]+)" y="[\d.]+" width="([\d.]+)"[^>]*class="{kind}"', markup)
    return [(float(left), float(width)) for left, width in found]


def test_segments_are_as_wide_as_they_are_large():
    small, large = segment(0, 99, size_bytes=100_000), segment(100, 199, size_bytes=900_000, is_last=True)
    drawn = segment_map(partition_map(partition(small, large)), FindingAnchors({}), "orders-0")
    (_, first), (_, second) = _shapes(drawn, "seg whole(?: active)?")
    assert 8 < second / first < 9.1
    assert _shapes(drawn, "seg whole active") == [(pytest.approx(first + 3, abs=0.2), second)]
    assert "100 active" in drawn


def test_damage_is_marked_where_it_is_and_leads_to_its_finding():
    log = segment(damage=((5000, 2500),), is_last=True)
    drawn = segment_map(partition_map(partition(log)), FindingAnchors({(log.path, 5000): "p1-7"}), "orders-0")
    ((left, width),) = _shapes(drawn, "hurt")
    assert left == pytest.approx(500, abs=5)
    assert width == pytest.approx(250, abs=6)
    assert 'href="#p1-7"' in drawn


def test_a_single_damaged_byte_can_be_seen():
    log = segment(size_bytes=2**30, damage=((2**30 - 1, 1),))
    ((left, width),) = _shapes(segment_map(partition_map(partition(log)), FindingAnchors({}), "a"), "hurt")
    assert width >= 3
    assert left + width <= 1000


def test_missing_offsets_inside_of_a_segment_are_counted():
    gaps = tuple(OffsetGap(at, at, at + 1) for at in (5, 10))
    verdict = partition(segment(gaps=gaps, gap_count=7), findings=(finding(severity="warning"),))
    assert "offsets missing in 7 places" in page_of(verdict).text


def test_gaps_and_overlaps():
    segments = segment(0, 99), segment(120, 199), segment(190, 250)
    drawing = partition_map(partition(*segments))
    discontinuities = [block.discontinuity for block in drawing.blocks[1:]]
    assert [
        (discontinuity.is_gap, discontinuity.first_offset, discontinuity.last_offset)
        for discontinuity in discontinuities
    ] == [
        (True, 100, 119),
        (False, 190, 199),
    ]
    drawn = segment_map(drawing, FindingAnchors({}), "a")
    assert len(_shapes(drawn, "gap")) == len(_shapes(drawn, "over")) == 1
    assert "offsets 100 to 119 are in no segment" in drawn


def test_a_finding_about_an_index_shows_at_its_segment():
    problem = finding("index.wrong-position", path="/data/orders-0/00000000000000000100.index", position=8)
    verdict = partition(segment(), segment(100, 199), findings=(problem,))
    assert [block.severity for block in partition_map(verdict).blocks] == [None, "error"]
    page = page_of(verdict)
    check(page)
    assert "#p1-0" in page.links


def test_many_whole_segments_are_one_block():
    segments = [segment(n * 100, n * 100 + 99, is_last=n == 999) for n in range(1000)]
    segments[500] = segment(50_000, 50_099, damage=((0, 9),))
    blocks = partition_map(partition(*segments)).blocks
    assert [block.count for block in blocks] == [500, 1, 498, 1]
    assert (blocks[0].first_offset, blocks[0].last_offset) == (0, 49_999)
    assert blocks[0].size_bytes == 5_000_000
    assert blocks[2].max_timestamp_ms == segments[998].max_timestamp_ms


def test_more_odd_segments_than_are_drawn():
    segments = [segment(n * 100, n * 100 + 99, damage=((0, 9),)) for n in range(1000)]
    drawing = partition_map(partition(*segments))
    assert len(drawing.blocks) + drawing.hidden == 1000
    assert f"{drawing.hidden} more segments not drawn" in segment_map(drawing, FindingAnchors({}), "a")


def test_lost_offsets_end_where_the_next_segment_begins():
    gap = finding("segment.gap", path="/data/orders-0/00000000000000000120.log")
    segments = segment(0, 79, lost_offsets=((90, MAX_INT64),)), segment(120, 199, lost_offsets=((200, MAX_INT64),))
    verdict = partition(*segments, findings=(gap,))
    assert lost_count(verdict) == 40  # 80 to 119: those of the gap and those of the damage are the same
    assert "an unknown number at the end of a log" in page_of(verdict).text


def test_an_absurd_timestamp_does_not_flatten_the_timeline():
    segments = segment(0, 99), segment(100, 199, max_timestamp_ms=MAX_INT64)
    drawn = timeline(partition_map(partition(*segments)), "orders-0", T0)
    assert "are at the right edge" in drawn
    assert "2023-11-14 22:15" in drawn
    assert str(MAX_INT64) not in re.sub(r"<title>.*?</title>", "", drawn)


# --- hostile names ----------------------------------------------------------------------------------------------------
def test_no_name_from_a_disk_becomes_markup():
    path = f"/data/{HOSTILE}-0"
    log = segment(100, 199, path=path, damage=((0, 10),))
    problems = (
        finding(path=log.path, position=0, message=HOSTILE, broker_action=HOSTILE, cure=HOSTILE, topic=HOSTILE),
        finding("file.unknown", "warning", path=f"{path}/{HOSTILE}", message=HOSTILE),
        finding("file.unfinished", "info", path=f"{path}/{HOSTILE}", message=HOSTILE),
    )
    verdicts = (
        partition(log, name=f"{HOSTILE}-0", topic=HOSTILE, findings=problems),
        partition(segment(), name=HOSTILE),
        PlaceVerdict(path=HOSTILE, findings=(finding(path=HOSTILE, message=HOSTILE),)),
    )
    page = page_of(*verdicts, selection=HOSTILE, targets=(HOSTILE,))
    check(page)
    assert HOSTILE.partition("&")[0] in page.text
    assert "\\udcff\\u202e\\n" in page.text
    assert "<img" not in page.source


def test_nothing_is_fetched_and_only_our_script_runs():
    page = page_of(damaged())
    assert not re.search(r"https?:|//[a-z]|url\(|@import|@font-face", page.source.replace("// ", ""))
    (policy,) = [value for tag, name, value in page.attributes if tag == "meta" and "default-src" in (value or "")]
    script = re.search(r"<script>(.*?)</script>", page.source, re.DOTALL)[1]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'" in policy


def test_every_theme_has_every_colour():
    style = (Path(report_page.__file__).parent / "report.css").read_text(encoding="utf-8")
    blocks = [
        dict(re.findall(r"(--[a-z-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r"\{([^{}]*--back:[^{}]*)\}", style)
    ]
    light, by_system, dark, printed = blocks
    assert by_system == dark
    assert set(light) == set(dark) == set(printed)
    assert set(re.findall(r"var\((--[a-z-]+)\)", style)) == set(light)
    for colours in (light, dark, printed):
        for front, back in (
            ("--text", "--back"),
            ("--soft", "--back"),
            ("--soft", "--card"),
            ("--link", "--card"),
            ("--bad", "--bad-back"),
            ("--odd", "--odd-back"),
            ("--good", "--good-back"),
            ("--text", "--bad-back"),
        ):
            assert contrast(colours[front], colours[back]) >= 4.5, (front, back)


def contrast(front, back):
    """As WCAG counts it."""

    def luminance(colour):
        shares = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [share / 12.92 if share <= 0.03928 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(front), luminance(back)))
    return (lighter + 0.05) / (darker + 0.05)


# --- bounds -----------------------------------------------------------------------------------------------------------
def test_the_worst_are_told_and_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(report_data, "DETAILED", 3)
    monkeypatch.setattr(report_data, "LISTED", 5)
    mild = [partition(segment(), name=f"mild-{n}", findings=(finding(severity="warning"),)) for n in range(6)]
    clean = [partition(segment(), name=f"clean-{n}") for n in range(9)]
    page = page_of(*mild, *clean, damaged("late-0"))
    check(page)
    assert [name for name in page.ids if re.fullmatch(r"p\d+", name)] == ["p16", "p1", "p2"]
    assert "and 2 more partitions: --output ndjson has them all" in page.text
    assert "and 4 more partitions: --output ndjson has them all" in page.text
    assert "and 4 more clean partitions" in page.text


def test_the_page_has_an_end(monkeypatch):
    monkeypatch.setattr(report_page, "DETAILS_SIZE", 30_000)
    monkeypatch.setattr(report_page, "ROWS_SIZE", 10_000)
    page = page_of(*(damaged(f"topic-{n}") for n in range(100)))
    check(page)
    assert len(page.source) < 90_000
    assert "Damaged: 100 of 100 partitions" in page.text
    assert re.search(r"and \d+ more partitions: --output ndjson", page.text)


def test_findings_of_one_partition_are_bounded():
    many = tuple(finding(position=n) for n in range(500))
    page = page_of(partition(segment(100, 199), findings=many))
    check(page)
    assert f"and {500 - report_data.SHOWN_FINDINGS} more findings" in page.text
    assert len(page.source) < 200_000


@pytest.mark.slow
def test_a_huge_and_hostile_disk_makes_a_page_of_bounded_size():
    name = "&" * 240
    segments = tuple(
        segment(n * 100, n * 100 + 99, path=f"/data/{name}-0", damage=tuple((at, 1) for at in range(0, 10_000, 100)))
        for n in range(300)
    )
    problems = tuple(finding(path=one.path, message="&" * 3000, position=0) for one in segments)
    page = page_of(*(partition(*segments, name=f"{name}-{n}", findings=problems) for n in range(200)))
    assert len(page.source.encode()) < 20_000_000
