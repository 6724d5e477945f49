"""Forecasts of `kafkalog compact` for people: whether the cleaner would run, what it would save, and what limits it."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import (
    NONE,
    bytes_cell,
    directory_name,
    human_bytes,
    number,
    origin_cell,
    plain,
    safe_text,
    time_cell,
)
from kafkalog_cli.render.grid import (
    TableColumn,
    count_column,
    number_column,
    size_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import INDENT, SummaryTable, wrapped_texts
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.ops.compact.forecast import CompactForecast
from kafkalog_core.ops.repair.assumptions import forecast_note
from kafkalog_core.ops.repair.held_options import held_note
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_core.ops.repair.assumptions import Assumption
    from kafkalog_core.ops.repair.held_options import HeldOption

__all__ = ["CompactTable", "detail_lines", "headline", "share"]


Row = dict[str, object]

STATES: Final = {
    "cleanable": "WOULD BE CLEANED NOW",
    "not-dirty-enough": "NOT NOW",
    "nothing-cleanable": "NOTHING TO CLEAN",
    "not-compacted": "NOT COMPACTED",
    "cleaner-off": "CLEANER OFF",
    "fails": "CLEAN FAILS",
}


def headline(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the first line, about all partitions together, and its style."""
    compacted = [row for row in rows if row["state"] != "not-compacted"]
    failing = [row for row in rows if row["state"] == "fails"]
    if not compacted:
        return f"NOT COMPACTED: {count_of(len(rows), 'partition')}: {_why_not(rows)}", "bold"
    if len(rows) == 1:
        style = "bold red" if failing else "bold green" if rows[0].get("would_run") else "bold yellow"
        return f"{STATES[str(rows[0]['state'])]}: {partition_sentence(rows[0])}", style
    running = [row for row in compacted if row.get("would_run")]
    total = f"{len(running)} of {count_of(len(compacted), 'compacted partition')} would be cleaned now"
    parts = [total + (f", which {_effect(running)}" if running else "")]
    waiting = [row for row in compacted if not row.get("would_run") and saved_bytes(row) > 0]
    if waiting:
        parts.append(f"{len(waiting)} would not be cleaned yet; a clean {_effect(waiting)}")
    if failing:
        parts.insert(0, f"a clean fails in {count_of(len(failing), 'partition')}")
    parts += _stuck(compacted)
    others = len(rows) - len(compacted)
    if others:
        parts.append(f"{count_of(others, 'partition')} not compacted")
    return "; ".join(parts), "bold red" if failing else "bold"


def _stuck(rows: Iterable[Row]) -> list[str]:
    """Return how many partitions have nothing to clean, by the limit of the cleaner."""
    kinds = Counter(plain(row.get("held_back_by")) for row in rows if row["state"] == "nothing-cleanable")
    if not kinds:
        return []
    held = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
    return [f"{kinds.total()} with nothing to clean (held back by {held})"]


def partition_sentence(row: Row) -> str:
    """Return `orders-0: its dirty ratio ...; saves 1.2 GiB of 2.0 GiB (60 %)`."""
    text = f"{directory_name(row)}: {plain(row.get('reason'))}"
    if row["state"] == "fails" or row.get("bytes_after") is None or not row.get("passes"):
        return text
    verb = "saves" if row.get("would_run") else "a clean would save"
    saved = saved_bytes(row)
    if saved <= 0:
        return f"{text}; {'it' if row.get('would_run') else 'a clean'} would save nothing"
    return f"{text}; {verb} {_of_total(saved, number(row, 'bytes_before'))}"


def saved_bytes(row: Mapping[str, object]) -> int:
    """Return the number of bytes that a clean frees; negative if the log grows."""
    if row.get("bytes_after") is None:
        return 0
    return number(row, "bytes_before") - number(row, "bytes_after")


def share(part: int, whole: int) -> str:
    """Return a share as `12.5 %`; a small part is `< 0.1 %`, never 0 %, and almost all is `> 99.9 %`, never 100 %."""
    if not whole:
        return "0 %"
    percent = 100 * part / whole
    if 0 < abs(percent) < 0.1:
        return "< 0.1 %"
    if 99.9 < percent < 100:
        return "> 99.9 %"
    return f"{percent:.1f} %".replace(".0 %", " %")


def _effect(rows: Iterable[Row]) -> str:
    listed = list(rows)
    saved = sum(map(saved_bytes, listed))
    total = sum(number(row, "bytes_before") for row in listed)
    if saved > 0:
        return f"saves {_of_total(saved, total)}"
    return "saves nothing" if saved == 0 else f"makes them {human_bytes(-saved)} larger"


def _of_total(saved: int, total: int) -> str:
    return f"{human_bytes(saved)} of {human_bytes(total)} ({share(saved, total)})"


def _why_not(rows: Sequence[Row]) -> str:
    reasons = dict.fromkeys(plain(row.get("reason")) for row in rows)
    return "; ".join(list(reasons)[:3])


SHOWN_SEGMENTS: Final = 40
_DEFAULT: Final = "default"
_KEPT: Final = {
    "latest-of-key": "latest of their key",
    "past-map": "after the last offset in the map",
    "tombstone": "tombstones, within delete.retention.ms",
    "control": "transaction markers",
}
_DROPPED: Final = {
    "superseded": "superseded by a later record of their key",
    "tombstone-expired": "tombstones older than delete.retention.ms",
    "null-key": "without a key",
    "aborted": "of aborted transactions",
    "marker-expired": "transaction markers older than delete.retention.ms",
}


def _ratio(row: Mapping[str, object]) -> str:
    value = row.get("dirty_ratio")
    return NONE if value is None else f"{value:.3f}"


_SEGMENTS: Final = (
    word_column("segment", "segment"),
    word_column("state", "state"),
    TableColumn("cleaned into", lambda row: NONE if row.get("group") is None else f"{row['group']:020d}", rank=2),
    size_column("log", "bytes_before"),
    size_column("log after", "bytes_after"),
    count_column("records", "records_before"),
    count_column("records after", "records_after"),
    count_column("tombstones", "tombstones_after", 1),
    time_column("next removable from", "next_horizon_ms", 3),
)
_PASSES: Final = (
    count_column("clean", "pass"),
    TableColumn("dirty offsets", lambda row: f"{row.get('first_dirty_offset')}..{_last(row)}", right=True),
    TableColumn("ratio", _ratio, right=True),
    count_column("ends at", "end_offset"),
    TableColumn(
        "because", lambda row: "the offset map was full" if row.get("is_map_full") else "the bound was reached"
    ),
    count_column("keys", "keys"),
    count_column("segments", "sources", 1),
    count_column("into", "groups", 1),
    size_column("log", "bytes_before"),
    size_column("log after", "bytes_after"),
)
_KEYS: Final = (
    count_column("#", "rank"),
    TableColumn("largest keys in the cleaned part", lambda row: bytes_cell(row.get("key")), flexible=True),
    TableColumn("records", lambda row: _at_least(row, f"{number(row, 'records'):,}"), right=True),
    TableColumn("keys and values", lambda row: _at_least(row, human_bytes(row.get("bytes"))), right=True),
)
_REASONS: Final = (
    TableColumn("what", lambda row: str(row["what"])),
    count_column("records", "records"),
    size_column("keys and values", "bytes"),
    TableColumn("of all records", lambda row: str(row["share"]), right=True),
)


def detail_lines(forecast: CompactForecast, width: int, *, has_title: bool) -> list[Text]:
    """Return the lines of one partition. `has_title`: they begin with the sentence about the partition."""
    row = forecast.partition
    lines: list[Text] = []
    if has_title:
        style = "bold red" if row["state"] == "fails" else "bold"
        lines += [Text(), *wrapped_texts(f"{STATES[str(row['state'])]}: {partition_sentence(row)}", width, style)]
    for label, text in _facts(row):
        lines += _labelled(label, text, width)
    lines += table_lines(_REASONS, _reasons(row), width)
    if len(forecast.passes) > 1:
        lines += table_lines(_PASSES, forecast.passes, width)
    lines += table_lines(_SEGMENTS, forecast.segments, width, noun="segment", most=SHOWN_SEGMENTS)
    lines += table_lines(_KEYS, forecast.keys, width)
    return lines


def _facts(row: Row) -> list[tuple[str, str]]:
    """Return the facts above the tables: labels and texts."""
    facts = [
        ("held back", plain(row["held_back_detail"]) if row.get("held_back_detail") else ""),
        ("offsets", _offsets(row)),
        ("dirty", _ratio_sentence(row)),
        ("cleans", _cleans(row)),
        ("saves", _savings(row)),
        ("keys", _keys(row)),
        ("tombstones", _tombstones(row)),
        ("retention", _retention(row)),
        ("rules", _rules(row)),
        *_settings(row),
    ]
    return [(label, text) for label, text in facts if text]


def _offsets(row: Row) -> str:
    if row.get("first_dirty_offset") is None:
        return ""
    text = f"dirty from {row['first_dirty_offset']} ({plain(row.get('first_dirty_origin'))})"
    text += f", a clean ends before {plain(row.get('first_uncleanable_offset'))}; log start {row['log_start_offset']}"
    mark = row.get("high_watermark")
    text += (
        f", high watermark {mark}"
        if mark is not None
        else ", no high watermark on disk: the log end offset is used instead"
    )
    stable = row.get("last_stable_offset")
    if stable is not None and stable != mark:
        text += f", last stable offset {stable}"
    return f"{text}, log end {plain(row.get('log_end_offset'))}"


def _ratio_sentence(row: Row) -> str:
    if row.get("dirty_ratio") is None:
        return ""
    cleanable, total = number(row, "cleanable_bytes"), number(row, "cleanable_bytes") + number(row, "clean_bytes")
    return (
        f"{human_bytes(cleanable)} of the {human_bytes(total)} that may be cleaned ({share(cleanable, total)}); "
        f"{human_bytes(row.get('uncleanable_bytes'))} are after the bound"
    )


def _cleans(row: Row) -> str:
    passes = number(row, "passes")
    if passes < 2:
        return ""
    return (
        f"{passes}, one after the other: the offset map holds {number(row, 'map_keys'):,} keys in "
        f"{human_bytes(row.get('memory_bytes'))}; afterwards the cleaner's checkpoint is "
        f"{plain(row.get('checkpoint_offset'))}"
    )


def _savings(row: Row) -> str:
    if not row.get("passes") or row.get("bytes_after") is None:
        return ""
    saved, before = saved_bytes(row), number(row, "bytes_before")
    size = f"{human_bytes(before)} -> {human_bytes(row['bytes_after'])} ({share(saved, before)} less)"
    if saved < 0:
        size = f"{human_bytes(before)} -> {human_bytes(row['bytes_after'])} (it grows)"
    records = f"{number(row, 'records_before'):,} -> {number(row, 'records_after'):,} records in the cleaned part"
    segments = f"{number(row, 'segments_before'):,} -> {count_of(number(row, 'segments_after'), 'segment')}"
    whether = "" if row.get("would_run") else " (if it were cleaned now)"
    return f"{size}, {records}, {segments}{whether}"


def _keys(row: Row) -> str:
    if not row.get("keys"):
        return ""
    keys, lone = number(row, "keys"), number(row, "lone_tombstone_keys")
    where = "in the dirty part" if number(row, "passes") == 1 else "in the offset maps of all cleans together"
    text = f"{keys:,} distinct {where}"
    return f"{text}; {lone:,} of them ({share(lone, keys)}) have only a tombstone there" if lone else text


def _tombstones(row: Row) -> str:
    left = number(row, "tombstones_after")
    if not left and row.get("next_horizon_ms") is None:
        return ""
    text = f"{left:,} {'is kept' if left == 1 else 'are kept'}"
    if row.get("next_horizon_ms") is not None:
        text += f"; a clean may remove the first tombstone or marker from {time_cell(row['next_horizon_ms'])} on"
    return text


def _retention(row: Row) -> str:
    """Return the note about the other half of cleanup.policy=compact,delete."""
    settings = cast("Mapping[str, Mapping[str, object]]", row.get("settings") or {})
    policy = str(settings.get("cleanup.policy", {}).get("value"))
    if "delete" not in policy.split(","):
        return ""
    return "cleanup.policy includes delete: the cleaner thread also deletes whole segments, see kafkalog retain"


def _rules(row: Row) -> str:
    evidence = "; ".join(str(row.get("release_evidence") or "").split("\n"))
    return f"Kafka {plain(row.get('release'))}" + (f": {safe_text(evidence)}" if evidence else "")


def _settings(row: Row) -> list[tuple[str, str]]:
    """Return a line for each origin of settings, Kafka's defaults last."""
    settings = cast("Mapping[str, Mapping[str, object]]", row.get("settings") or {})
    places: dict[str, list[str]] = {}
    for name, each in settings.items():
        value = "unlimited" if each.get("value") == str(MAX_INT64) else plain(each.get("value"))
        places.setdefault(origin_cell(each.get("origin"), row), []).append(f"{name}={value}")
    ordered = sorted(places.items(), key=lambda place: place[0].startswith(_DEFAULT))
    return [
        ("settings" if number == 0 else "", f"{', '.join(values)} ({origin})")
        for number, (origin, values) in enumerate(ordered)
    ]


def _reasons(row: Row) -> list[Row]:
    rows = []
    total = number(row, "records_before")
    for verb, names, column in (("kept", _KEPT, "kept"), ("removed", _DROPPED, "dropped")):
        records = cast("Mapping[str, int]", row.get(f"{column}_records") or {})
        sizes = cast("Mapping[str, int]", row.get(f"{column}_bytes") or {})
        rows += [
            {
                "what": f"{verb}: {names.get(name, safe_text(name))}",
                "records": count,
                "bytes": sizes.get(name),
                "share": share(count, total),
            }
            for name, count in records.items()
            if count
        ]
    return cast("list[Row]", rows)


def _at_least(row: Mapping[str, object], shown: str) -> str:
    """Return a figure of one of the largest keys; with many keys it is a lower bound."""
    return shown if row.get("bytes") == row.get("most_bytes") else f">= {shown}"


def _last(row: Mapping[str, object]) -> int:
    return number(row, "first_uncleanable_offset") - 1


def _labelled(label: str, text: str, width: int) -> list[Text]:
    start = f"{INDENT}{label + ':' if label else '':12}"
    return wrapped_texts(text, width, first=start, indent=" " * len(start))


SHOWN_PARTITIONS: Final = 200
SHOWN_DETAILS: Final = 3


def _saved(row: Mapping[str, object]) -> str:
    return human_bytes(saved_bytes(row)) if row.get("passes") and row.get("bytes_after") is not None else NONE


def _records(row: Mapping[str, object]) -> str:
    if row.get("records_after") is None:
        return NONE
    return f"{number(row, 'records_before'):,} -> {number(row, 'records_after'):,}"


_COLUMNS: Final = (
    TableColumn("partition", directory_name),
    word_column("state", "state"),
    TableColumn("dirty ratio", _ratio, right=True),
    size_column("log", "bytes_before"),
    TableColumn("saves", _saved, right=True),
    TableColumn("records", _records, right=True, rank=3),
    number_column("cleans", "passes", 4),
    word_column("held back by", "held_back_by", 1),
    size_column("after the bound", "uncleanable_bytes", 2),
)


class CompactTable(SummaryTable[CompactForecast]):
    """The forecasts of all partitions; those that matter most are shown in full."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: list[Row] = []
        self._assumptions: dict[Assumption, None] = {}
        self._held: dict[HeldOption, None] = {}
        self._most: list[CompactForecast] = []

    def write(self, forecast: CompactForecast) -> None:
        """Keep the row of the partition, its findings, and all of it if it is among those that matter most."""
        self._rows.append(forecast.partition)
        self._assumptions.update(dict.fromkeys(forecast.assumptions))
        self._held.update(dict.fromkeys(forecast.held))
        self.add_findings(finding.row() for finding in forecast.findings)
        self._most = sorted([*self._most, forecast], key=_weight, reverse=True)[:SHOWN_DETAILS]

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the assumptions, the answer, the partitions, and the partitions that are shown in full."""
        del summary
        lines: list[Text] = []
        if self._assumptions:
            lines += wrapped_texts(forecast_note(list(self._assumptions)), self.width, "bold yellow")
        if self._held:
            lines += wrapped_texts(held_note(list(self._held)), self.width, "bold yellow")
        if self._rows:
            sentence, style = headline(self._rows)
            lines += wrapped_texts(sentence, self.width, style)
        compacted = [row for row in self._rows if row["state"] != "not-compacted"]
        if len(self._rows) > 1:
            lines += table_lines(_COLUMNS, compacted, self.width, noun="partition", most=SHOWN_PARTITIONS)
        for forecast in self._most:
            if forecast.partition["state"] != "not-compacted":
                lines += detail_lines(forecast, self.width, has_title=len(self._rows) > 1)
        if len(compacted) > len(self._most):
            lines += [Text(), Text("to see one of the others in full, run kafkalog compact on it alone", "dim")]
        return lines


def _weight(forecast: CompactForecast) -> tuple[bool, bool, int]:
    """Return the order of details: failing cleans first, then compacted topics, then those that save most."""
    row = forecast.partition
    return row["state"] == "fails", row["state"] != "not-compacted", saved_bytes(row)
