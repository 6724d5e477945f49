"""The top of the page: what is wrong, how much of it, and what happens next, for somebody who reads no further."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kafkalog_cli.render.cells import human_bytes
from kafkalog_cli.render.report_html import Html, element, join, moment, number
from kafkalog_cli.render.summary import sound_partitions
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kafkalog_cli.render.report_data import Code, Collected, RunFacts
    from kafkalog_core.findings import Finding

__all__ = ["count_of_number", "facts", "headline", "worst_codes"]

WORST: Final = 10
"""Rows of the table below the headline."""
_NAMES: Final = 3
_TARGETS: Final = 12
_REFUSED: Final = 3
_NOUNS: Final = {"error": "error", "warning": "warning", "info": "normal one"}
_LEVELS: Final = {
    "headers": "headers: no checksums",
    "checksums": "checksums: every byte",
    "records": "records: everything",
}


def headline(collected: Collected, summary: Mapping[str, object]) -> Html:
    """One sentence in large letters, and what it means."""
    severities = cast("dict[str, int]", summary.get("severities") or {})
    state = "damaged" if severities.get("error") else "warnings" if severities.get("warning") else "clean"
    sentences = [
        _no_start(collected),
        _how_much(collected, summary),
        _lost(collected),
        _around(collected),
        _at_risk(collected),
    ]
    if state == "damaged":
        sentences.append(
            "Copy what is damaged to another disk before a broker starts on this one: its start may cut or delete it."
        )
    elif state == "warnings":
        sentences.insert(
            0, "Nothing is damaged. A warning is what a healthy broker may leave behind, yet worth a look."
        )
    if summary.get("exit_status") == _REFUSED:
        sentences.insert(0, "Not all of it could be read: of that nothing is known. What it is stands further below.")
    return element(
        "section",
        element("h2", _title(state, collected, summary), id="verdict"),
        *(element("p", sentence) for sentence in sentences if sentence),
        class_=f"verdict {state}",
        aria_labelledby="verdict",
    )


def _title(state: str, collected: Collected, summary: Mapping[str, object]) -> str:
    partitions, damaged = collected.partitions, collected.states["damaged"]
    if damaged:
        return f"Damaged: {damaged:,} of {count_of_number(partitions, 'partition')}"
    if state == "damaged":
        return f"Errors, but in none of {count_of_number(partitions, 'partition')}" if partitions else "Errors"
    if not partitions and not summary.get("files"):
        return "Nothing to check was there" if state == "clean" else "Warnings, and no partition"
    whole = sound_partitions(summary, collected.states) if partitions else "no damage"
    if state == "warnings":
        return f"Warnings: {whole}"
    return f"No damage: {count_of_number(partitions, 'partition')} checked" if partitions else "No damage"


def count_of_number(count: int, noun: str) -> str:
    """`1 partition`, `12,000 partitions`."""
    return count_of(count, noun) if count == 1 else f"{count:,} {noun}s"


def _how_much(collected: Collected, summary: Mapping[str, object]) -> str:
    places = summary.get("damage_count")
    if not places:
        return ""
    size = human_bytes(summary.get("damage_bytes"))
    if not collected.states["damaged"]:
        where = count_of(places, "place")
        return f"{size} in {where} hold no batch, which is normal where they are: a crash left them, or room to grow."
    names = [str(row["name"]) for row in collected.listed if row["damage_count"]]
    where = f" of {_listed(names)}" if names else ""
    return f"{size} in {count_of(places, 'place')} of the logs{where} hold no whole batch."


def _no_start(collected: Collected) -> str:
    names = [
        finding.path
        for _, code in collected.codes_by_rank()
        if code.stops_broker
        for _, finding in code.places
        if finding.severity == "error"
    ]
    return f"A broker does not start on this disk as it is, because of {_listed(names)}." if names else ""


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMES
    shown = ", ".join(names[:_NAMES])
    return f"{shown} and {more:,} more" if more > 0 else shown


def _lost(collected: Collected) -> str:
    if collected.lost_offsets:
        more = ", and at the end of a log nobody knows how many more" if collected.has_open_losses else ""
        return f"Up to {collected.lost_offsets:,} records may be lost: so many offsets can be read nowhere here{more}."
    if collected.has_open_losses:
        return "How many records were in them cannot be told: it is the end of a log."
    return ""


def _around(collected: Collected) -> str:
    errors = [finding for place in collected.places for finding in place.findings if finding.severity == "error"]
    if not errors:
        return ""
    verb = "is" if len(errors) == 1 else "are"
    return f"{count_of(len(errors), 'error')} {verb} about the log directory and its own files."


def _at_risk(collected: Collected) -> str:
    if not collected.at_risk_bytes:
        return ""
    return (
        f"The last stop was not clean: a broker reads {human_bytes(collected.at_risk_bytes)} behind the recovery "
        "points again at its next start, and cuts what is not whole there."
    )


# --- what happens next ------------------------------------------------------------------------------------------------
def worst_codes(collected: Collected, links: Mapping[str, str]) -> Html | None:
    """A table of the worst codes: where, what is wrong, what a broker will do, what mends it."""
    ranked = collected.codes_by_rank()
    wanted = "error" if any(code.severity == "error" for _, code in ranked) else "warning"
    shown = [(name, code) for name, code in ranked if code.severity == wanted]
    if not shown:
        return None
    titles = ("Where", "What is wrong", "What a broker does at its next start, or later", "What mends it")
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


def _worst_rows(name: str, code: Code, links: Mapping[str, str]) -> list[Html]:
    """A row for each thing that a broker does about it; the last one tells how many more there are."""
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
        element("td", first.cure or "Nothing needs to be done.", data_label="What mends it"),
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
    """The section of the partition or directory that a finding is about."""
    return links.get(finding.path) or links.get(finding.path.rpartition("/")[0])


# --- facts ------------------------------------------------------------------------------------------------------------
def facts(run: RunFacts, collected: Collected, summary: Mapping[str, object], finished_ms: int) -> Html:
    """Figures of the run."""
    severities = cast("dict[str, int]", summary.get("severities") or {})
    found = [count_of(severities[name], noun) for name, noun in _NOUNS.items() if severities.get(name)]
    seconds = max((finished_ms - run.started_ms) / 1000, 0.001)
    size_bytes = cast("int", summary.get("bytes") or 0)
    speed = f" ({human_bytes(int(size_bytes / seconds))}/s)" if seconds >= 1 else ""
    pairs: list[tuple[str, object]] = [
        ("Log read", f"{human_bytes(size_bytes)} in {count_of(summary.get('files'), 'file')}"),
        ("Batches", number(summary.get("batches"))),
        ("Records", number(summary.get("records"))),
        ("Formats", ", ".join(sorted(collected.formats)) or "none"),
        ("Findings", ", ".join(found) or "none"),
        ("Level", _LEVELS.get(run.level, run.level)),
        ("Started", moment(run.started_ms)),
        ("Took", f"{seconds:,.1f} s{speed}"),
        ("Exit status", number(summary.get("exit_status"))),
        ("Made by", f"kafkalog {run.version}"),
    ]
    cards = [element("div", element("dt", label), element("dd", said)) for label, said in pairs]
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
