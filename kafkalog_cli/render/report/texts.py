"""The texts of the report: what is wrong, how much of it, what a broker does, and what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kafkalog_cli.render.cells import human_bytes
from kafkalog_cli.render.report.html import Html, element, join, moment, number
from kafkalog_cli.render.summary_line import sound_partitions
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_cli.render.report.data import CodeFindings, ReportData, RunFacts
    from kafkalog_core.findings import Finding

__all__ = ["badge", "code_section", "count_of_number", "facts", "finding_list", "headline", "numbered", "worst_codes"]


WORST: Final = 10
"""Rows of the table below the headline."""
_NAMES: Final = 3
_TARGETS: Final = 12
_REFUSED: Final = 3
_NOUNS: Final = {"error": "error", "warning": "warning", "info": "normal finding"}
_LEVELS: Final = {
    "headers": "headers: no checksums",
    "checksums": "checksums: every byte",
    "records": "records: everything",
}


def headline(data: ReportData, summary: Mapping[str, object]) -> Html:
    """Return the headline and the sentences that explain it."""
    severities = cast("dict[str, int]", summary.get("severities") or {})
    state = "damaged" if severities.get("error") else "warnings" if severities.get("warning") else "clean"
    sentences = [
        _no_start(data),
        _how_much(data, summary),
        _lost(data),
        _around(data),
        _at_risk(data),
    ]
    if state == "damaged":
        sentences.append(
            "Copy the damaged partitions to another disk before a broker starts: it may truncate or delete them."
        )
    elif state == "warnings":
        sentences.insert(
            0, "Nothing is damaged. A healthy broker may leave the states that the warnings describe, but check them."
        )
    if summary.get("exit_status") == _REFUSED:
        sentences.insert(0, "Not everything could be read; the unread files are listed below.")
    return element(
        "section",
        element("h2", _title(state, data, summary), id="verdict"),
        *(element("p", sentence) for sentence in sentences if sentence),
        class_=f"verdict {state}",
        aria_labelledby="verdict",
    )


def _title(state: str, data: ReportData, summary: Mapping[str, object]) -> str:
    partitions, damaged = data.partitions, data.states["damaged"]
    if damaged:
        return f"Damaged: {damaged:,} of {count_of_number(partitions, 'partition')}"
    if state == "damaged":
        return f"Errors, but in none of {count_of_number(partitions, 'partition')}" if partitions else "Errors"
    if not partitions and not summary.get("files"):
        return "There was nothing to check" if state == "clean" else "Warnings; the check included no partition"
    whole = sound_partitions(summary, data.states) if partitions else "no damage"
    if state == "warnings":
        return f"Warnings: {whole}"
    return f"No damage: {count_of_number(partitions, 'partition')} checked" if partitions else "No damage"


def count_of_number(count: int, noun: str) -> str:
    """Return `1 partition` or `12,000 partitions`."""
    return count_of(count, noun) if count == 1 else f"{count:,} {noun}s"


def _how_much(data: ReportData, summary: Mapping[str, object]) -> str:
    places = summary.get("damage_count")
    if not places:
        return ""
    size = human_bytes(summary.get("damage_bytes"))
    if not data.states["damaged"]:
        where = count_of(places, "place")
        return f"{size} in {where} contain no batch. This is normal after a crash and in a preallocated file."
    names = [str(row["name"]) for row in data.listed if row["damage_count"]]
    where = f" of {_listed(names)}" if names else ""
    return f"{size} in {count_of(places, 'place')} of the logs{where} contain no valid batch."


def _no_start(data: ReportData) -> str:
    names = [
        finding.path
        for _, code in data.codes_by_rank()
        if code.stops_broker
        for _, finding in code.places
        if finding.severity == "error"
    ]
    return f"A broker does not start on this disk, because of {_listed(names)}." if names else ""


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMES
    shown = ", ".join(names[:_NAMES])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _lost(data: ReportData) -> str:
    if data.lost_offsets:
        more = ", and an unknown number at the end of a log" if data.has_open_losses else ""
        return f"Up to {data.lost_offsets:,} records may be lost: that many offsets are in no readable batch{more}."
    if data.has_open_losses:
        return "The number of records in them is unknown, because they are at the end of a log."
    return ""


def _around(data: ReportData) -> str:
    errors = [finding for place in data.places for finding in place.findings if finding.severity == "error"]
    if not errors:
        return ""
    verb = "is" if len(errors) == 1 else "are"
    return f"{count_of(len(errors), 'error')} {verb} about the log directory and its own files."


def _at_risk(data: ReportData) -> str:
    if not data.at_risk_bytes:
        return ""
    return (
        f"The last shutdown was not clean: at its next start a broker reads {human_bytes(data.at_risk_bytes)} after "
        "the recovery points again, and truncates incomplete batches there."
    )


# --- what happens next ------------------------------------------------------------------------------------------------
def worst_codes(data: ReportData, links: Mapping[str, str]) -> Html | None:
    """Return a table of the worst codes: where, what is wrong, what a broker does, what to do."""
    ranked = data.codes_by_rank()
    wanted = "error" if any(code.severity == "error" for _, code in ranked) else "warning"
    shown = [(name, code) for name, code in ranked if code.severity == wanted]
    if not shown:
        return None
    titles = ("Where", "What is wrong", "What a broker does at its next start, or later", "What to do")
    head = element("tr", *(element("th", title, scope="col") for title in titles))
    rows = [row for name, code in shown for row in _worst_rows(name, code, links)]
    table = element("table", element("thead", head), element("tbody", *rows[:WORST]), class_="next")
    rest = len(rows) - WORST
    more = element("p", f"and {count_of(rest, 'more case')}: ", element("a", "findings by code", href="#codes"))
    return element(
        "section",
        element("h2", "What is wrong, and what happens next", id="next"),
        element("div", table, class_="scroll", tabindex=0),
        more if rest > 0 else None,
    )


def _worst_rows(name: str, code: CodeFindings, links: Mapping[str, str]) -> list[Html]:
    """Return a row for each action of a broker; the last row has the number of further places."""
    groups: dict[tuple[str | None, str | None], list[tuple[str, Finding]]] = {}
    for place in code.places:
        groups.setdefault((place[1].broker_action, place[1].cure), []).append(place)
    rest = code.severities.total() - len(code.places)
    counts = [len(places) for places in groups.values()]
    counts[-1] += rest
    return [_worst_row(name, places, count - 1, links) for places, count in zip(groups.values(), counts, strict=True)]


def _worst_row(name: str, places: list[tuple[str, Finding]], more: int, links: Mapping[str, str]) -> Html:
    first = places[0][1]
    others = element("a", f"and {more:,} more of this code", href=f"#c-{name}", class_="note") if more else None
    return element(
        "tr",
        element("th", _where(places, links), scope="row"),
        element("td", first.message, " ", others, data_label="What is wrong"),
        element("td", first.broker_action or "Nothing.", data_label="A broker"),
        element("td", first.cure or "Nothing needs to be done.", data_label="What to do"),
    )


def _where(places: list[tuple[str, Finding]], links: Mapping[str, str]) -> Html:
    anchors: dict[str, str | None] = {}
    for name, finding in places:
        anchors.setdefault(name, link_of(finding, links))
    shown = [element("a", name, href=f"#{at}") if at else name for name, at in list(anchors.items())[:_NAMES]]
    lines = [element("div", item, class_="mono") for item in shown]
    if len(anchors) > _NAMES:
        lines.append(element("div", "and others", class_="note"))
    return join(lines)


def link_of(finding: Finding, links: Mapping[str, str]) -> str | None:
    """Return the anchor of the partition or directory that a finding is about; `None`: it has no section."""
    return links.get(finding.path) or links.get(finding.path.rpartition("/")[0])


# --- facts ------------------------------------------------------------------------------------------------------------
def facts(run: RunFacts, data: ReportData, summary: Mapping[str, object], finished_ms: int) -> Html:
    """Return the figures of the run."""
    severities = cast("dict[str, int]", summary.get("severities") or {})
    found = [count_of(severities[name], noun) for name, noun in _NOUNS.items() if severities.get(name)]
    seconds = max((finished_ms - run.started_ms) / 1000, 0.001)
    size_bytes = cast("int", summary.get("bytes") or 0)
    speed = f" ({human_bytes(int(size_bytes / seconds))}/s)" if seconds >= 1 else ""
    pairs: list[tuple[str, object]] = [
        ("Log read", f"{human_bytes(size_bytes)} in {count_of(summary.get('files'), 'file')}"),
        ("Batches", number(summary.get("batches"))),
        ("Records", number(summary.get("records"))),
        ("Formats", ", ".join(sorted(data.formats)) or "none"),
        ("Findings", ", ".join(found) or "none"),
        ("Level", _LEVELS.get(run.level, run.level)),
        ("Started", moment(run.started_ms)),
        ("Duration", f"{seconds:,.1f} s{speed}"),
        ("Exit status", number(summary.get("exit_status"))),
        ("Written by", f"kafkalog {run.version}"),
    ]
    cards = [element("div", element("dt", label), element("dd", value)) for label, value in pairs]
    targets = [element("div", path, class_="mono") for path in run.targets[:_TARGETS]]
    if len(run.targets) > _TARGETS:
        targets.append(element("div", f"and {len(run.targets) - _TARGETS:,} more", class_="note"))
    cards.append(element("div", element("dt", "What was checked"), element("dd", *targets), class_="wide"))
    if run.refused:
        refused = [element("div", sentence, class_="mono") for sentence in run.refused[:_TARGETS]]
        if len(run.refused) > _TARGETS:
            refused.append(element("div", f"and {len(run.refused) - _TARGETS:,} more", class_="note"))
        cards.append(element("div", element("dt", "What could not be read"), element("dd", *refused), class_="wide"))
    if run.selection:
        cards.append(element("div", element("dt", "Only"), element("dd", run.selection)))
    return element("dl", *cards, class_="facts")


_SHORT: Final = 400
_RANK: Final = {"error": 0, "warning": 1, "info": 2}
_SIGNS: Final = {
    "error": "\N{HEAVY MULTIPLICATION X}",
    "warning": "!",
    "info": "i",
    "damaged": "\N{HEAVY MULTIPLICATION X}",
    "warnings": "!",
    "unread": "?",
    "clean": "\N{CHECK MARK}",
}


def badge(word: str) -> Html:
    """Return a severity or state with its colour and its sign, so that it is clear without colours too."""
    return element("span", element("span", _SIGNS[word], aria_hidden="true"), " ", word, class_=f"badge {word}")


def numbered(key: str, findings: Sequence[Finding]) -> dict[tuple[str, int | None], str]:
    """Return the anchor of each place; that of the first finding if there are several."""
    places: dict[tuple[str, int | None], str] = {}
    for index, finding in enumerate(findings):
        places.setdefault((finding.path, finding.position), f"{key}-{index}")
    return places


def finding_list(key: str, root: str, findings: Sequence[Finding]) -> Html:
    """Return errors and warnings, and findings of severity info folded; `root` is left out of the paths."""
    severe = [(number, finding) for number, finding in enumerate(findings) if finding.severity != "info"]
    normal = [(number, finding) for number, finding in enumerate(findings) if finding.severity == "info"]
    parts = [_groups(key, root, severe)] if severe else []
    if normal:
        summary = element("summary", f"{count_of(len(normal), 'more finding')} of severity info: normal operation")
        parts.append(element("details", summary, _groups(key, root, normal)))
    return join(parts)


def _groups(key: str, root: str, findings: Iterable[tuple[int, Finding]]) -> Html:
    groups: dict[tuple[str, ...], list[tuple[int, Finding]]] = {}
    for index, finding in findings:
        common = (finding.severity, finding.code, finding.broker_action or "", finding.cure or "")
        groups.setdefault(common, []).append((index, finding))
    items = [
        element(
            "li",
            element("p", badge(severity), " ", _code_link(code), class_="head"),
            element("ul", *(_place(key, root, number, finding) for number, finding in places), class_="places"),
            _texts({"A broker": [action], "Cure": [cure]}),
            class_=f"finding {severity}",
        )
        for (severity, code, action, cure), places in sorted(groups.items(), key=lambda item: _RANK[item[0][0]])
    ]
    return element("ul", *items, class_="findings")


def _code_link(code: str) -> Html:
    return element("a", code, href=f"#c-{code}", class_="mono", title="What this code means")


def _place(key: str, root: str, number: int, finding: Finding) -> Html:
    where = element("span", _findings_where(finding, root), class_="mono where")
    return element("li", where, " ", finding.message, id=f"{key}-{number}")


def _findings_where(finding: Finding, root: str) -> str:
    """Return the place of a finding: `00000000000000000076.log at byte 4,096 (248 B)`."""
    path = finding.path.removeprefix(root.rstrip("/") + "/") if finding.path != root else "."
    if finding.position is None:
        return path if path != "." else "the directory"
    size = "" if not finding.size_bytes else f" ({human_bytes(finding.size_bytes)})"
    return f"{path} at byte {finding.position:,}{size}"


def _texts(texts: Mapping[str, Iterable[str]]) -> Html | None:
    parts: list[Html] = []
    for label, lines in texts.items():
        items = [element("dd", text) for text in lines if text]
        parts += [element("dt", label), *items] if items else []
    return element("dl", *parts, class_="texts") if parts else None


# --- by code ----------------------------------------------------------------------------------------------------------
def code_section(code: str, group: CodeFindings, links: Mapping[str, str]) -> Html:
    """Return the section of a code: its meaning, what brokers do, what to do, and the first places."""
    kind = FINDING_TYPES.get(code)
    times = count_of(group.severities.total(), "finding")
    head = element("h3", badge(group.severity), " ", element("span", code, class_="mono"), " ", _small(times))
    body = [
        element("p", kind.meaning) if kind is not None and kind.meaning else None,
        _texts({"A broker": _often(group.actions), "Cure": _often(group.cures)}),
        element("ul", *(_code_place(name, finding, links) for name, finding in group.places), class_="places"),
        _more(group),
    ]
    return element("article", head, *body, id=f"c-{code}", class_=f"code {group.severity}")


def _small(text: str) -> Html:
    return element("span", text, class_="note")


def _often(texts: Counter[str]) -> list[str]:
    """Return the texts, the most frequent first."""
    return [_shortened(text) for text, _ in texts.most_common()]


def _shortened(text: str) -> str:
    """Return the beginning of a long text: every code is shown, however large the page has become."""
    return text if len(text) <= _SHORT else text[:_SHORT] + "..."


def _code_place(name: str, finding: Finding, links: Mapping[str, str]) -> Html:
    anchor = links.get(finding.path.rpartition("/")[0]) or links.get(finding.path)
    shown = element("a", _shortened(name), href=f"#{anchor}") if anchor else _shortened(name)
    return element("li", element("span", shown, class_="mono where"), " ", _shortened(finding.message))


def _more(group: CodeFindings) -> Html | None:
    rest = group.severities.total() - len(group.places)
    return element("p", f"and {rest:,} more: --output ndjson has them all", class_="note") if rest > 0 else None
