"""Forecasts of `kafkalog compact` for people: whether the cleaner would run, what it would save, and what limits it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.answer import (
    NOTHING,
    Answer,
    AnswerTable,
    PartitionLine,
    assumed_lines,
    counted_rest,
    impact_line,
    rule_lines,
    unknown_lines,
)
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
    size_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import INDENT, wrapped_texts
from kafkalog_core.command_lines import shell_line
from kafkalog_core.format.layout import MAX_INT64
from kafkalog_core.ops.compact.forecast import CompactForecast
from kafkalog_core.ops.repair.assumptions import unknown_topics
from kafkalog_core.ops.repair.held_options import held_note
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of, duration

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

__all__ = ["CompactTable", "share"]


Row = dict[str, object]

_WHY_NOT: Final = {"not-compacted": "not compacted", "cleaner-off": "the cleaner is off"}
_NAMED_PATHS: Final = 5
"""The most partitions in the command about their transactions."""
_TRANSACTION: Final = "open-transaction"
_HOLDERS: Final = {
    "active-segment": "only the active segment is dirty",
    _TRANSACTION: "an open transaction holds the cleaner back",
    "high-watermark": "the high watermark holds the cleaner back",
    "min-compaction-lag": "min.compaction.lag.ms holds the cleaner back",
}


def verdict_of(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the verdict about all partitions together, one sentence without its full stop, and its style."""
    compacted = [row for row in rows if row["state"] != "not-compacted"]
    failing = [row for row in rows if row["state"] == "fails"]
    if not compacted:
        where = directory_name(rows[0]) if len(rows) == 1 else count_of(len(rows), "partition")
        return f"NOT COMPACTED: {where}: {_why_not(rows)}", "bold"
    running = [row for row in compacted if row.get("would_run")]
    waiting = [row for row in compacted if not row.get("would_run") and saved_bytes(row) > 0]
    parts = []
    if failing:
        parts.append(f"a clean fails in {_which(failing, rows)}")
    if running:
        parts.append(f"would clean {_which(running, compacted)} now, which {_effect(running)}")
    if waiting:
        nothing = "" if running or failing else "would clean nothing now: "
        parts.append(f"{nothing}a clean of {_which(waiting, compacted)} is not due; it would save {_amount(waiting)}")
    parts += [f"{_HOLDERS.get(kind, kind)} in {_which(held, compacted)}" for kind, held in _held(compacted)]
    partly = [row for row in (*running, *waiting) if row.get("held_back_by") == _TRANSACTION]
    if partly:
        held_bytes = human_bytes(sum(number(row, "uncleanable_bytes") for row in partly))
        parts.append(f"an open transaction keeps the cleaner from {held_bytes} more in {_which(partly, compacted)}")
    if not (failing or running or waiting):
        parts.insert(0, "would clean nothing now")
    if any(row["state"] == "cleaner-off" for row in compacted):
        parts.append("the cleaner is off")
    text = f"{parts[0]}{': ' if parts[0] == 'would clean nothing now' else '; '}{'; '.join(parts[1:])}"
    style = "bold red" if failing else "bold green" if running else "bold yellow"
    return _shouted(text.rstrip(":; ")), style


def _shouted(text: str) -> str:
    """Return a verdict whose first words are in capital letters."""
    for start in ("would clean nothing now", "would clean", "a clean fails"):
        if text.startswith(start):
            return start.upper() + text[len(start) :]
    return text[:1].upper() + text[1:]


def _which(some: Sequence[Row], rows: Sequence[Row]) -> str:
    """Return the name of one partition, or `2 of 9 partitions`."""
    if len(some) == 1:
        return directory_name(some[0])
    return f"{len(some)} of {count_of(len(rows), 'partition')}"


def _held(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    """Return the partitions with nothing to clean, by what limits the cleaner; the active segment last."""
    held: dict[str, list[Row]] = {}
    for row in rows:
        if row["state"] == "nothing-cleanable":
            held.setdefault(plain(row.get("held_back_by")), []).append(row)
    return sorted(held.items(), key=lambda pair: pair[0] in {_ACTIVE, NONE})


def line_of(forecast: CompactForecast) -> PartitionLine:
    """Return the row of a partition."""
    row = forecast.partition
    state, held = str(row["state"]), row.get("held_back_by")
    what, style, amount, when = "keep", "", NONE, NONE
    why = str(row.get("reason") or NONE)
    if state == "fails":
        what, style = "clean fails", "bold red"
    elif row.get("would_run"):
        what, when, style = "clean", "now", "green"
    elif state == "nothing-cleanable" and held is not None:
        what, amount = "cannot clean", human_bytes(row.get("uncleanable_bytes"))
        why = NONE if forecast.held_by is not None else str(row.get("held_back_detail") or why)
        style = "" if held == _ACTIVE else "yellow"
        until_ms, now_ms = row.get("held_back_until_ms"), row.get("now_ms")
        if isinstance(until_ms, int) and isinstance(now_ms, int) and until_ms > now_ms:
            when = f"in {duration(until_ms - now_ms)}"
    elif row.get("passes"):
        what = "clean later"
    if row.get("passes") and row.get("bytes_after") is not None:
        saved = saved_bytes(row)
        verb = "saves" if row.get("would_run") else "would save"
        amount = f"{verb} {_of_total(saved, number(row, 'bytes_before'))}" if saved > 0 else f"{verb} nothing"
    return PartitionLine(directory_name(row), what, amount, when, why, _after(forecast), style)


def _after(forecast: CompactForecast) -> str:
    """Return what a clean does once the transaction has ended that holds the cleaner back; empty if none does."""
    open_one = forecast.held_by
    if open_one is None:
        return ""
    text = f"{open_one.sentence}; the cleaner waits for its end."
    if open_one.bytes_after is None:
        return text
    before = number(forecast.partition, "bytes_before")
    saved = before - open_one.bytes_after
    saves = f"would save {_of_total(saved, before)}" if saved > 0 else "would save nothing"
    return f"{text} Once it has committed, a clean {saves}."


def _transaction_commands(forecasts: Sequence[CompactForecast]) -> tuple[str, ...]:
    """Return the command that shows who ends the transactions that hold the cleaner back; empty if there are none."""
    paths = [str(each.partition["path"]) for each in forecasts if each.held_by is not None]
    if not paths:
        return ()
    return (shell_line(["kafkalog", "transactions", *paths[:_NAMED_PATHS]]),)


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


def _effect(rows: Sequence[Row]) -> str:
    saved = sum(map(saved_bytes, rows))
    if saved > 0:
        return f"saves {_amount(rows)}"
    return "saves nothing" if saved == 0 else f"makes them {human_bytes(-saved)} larger"


def _amount(rows: Sequence[Row]) -> str:
    return _of_total(sum(map(saved_bytes, rows)), sum(number(row, "bytes_before") for row in rows))


def _of_total(saved: int, total: int) -> str:
    return f"{human_bytes(saved)} of {human_bytes(total)} ({share(saved, total)})"


def _why_not(rows: Sequence[Row]) -> str:
    reasons = dict.fromkeys(plain(row.get("reason")) for row in rows)
    return "; ".join(list(reasons)[:3])


_ACTIVE: Final = "active-segment"
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


def detail_lines(forecast: CompactForecast, width: int, *, has_title: bool, explains: bool) -> list[Text]:
    """Return the lines of one partition. `has_title`: they begin with its name. `explains`: with its settings."""
    row = forecast.partition
    lines = [Text(), *([Text(directory_name(row), "bold")] if has_title else [])]
    for label, text in _facts(row, explains=explains):
        lines += _labelled(label, text, width)
    lines += table_lines(_REASONS, _reasons(row), width)
    if len(forecast.passes) > 1:
        lines += table_lines(_PASSES, forecast.passes, width)
    lines += table_lines(_SEGMENTS, forecast.segments, width, noun="segment", most=SHOWN_SEGMENTS)
    lines += table_lines(_KEYS, forecast.keys, width)
    return lines


def _facts(row: Row, *, explains: bool) -> list[tuple[str, str]]:
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
        *([("rules", _rules(row)), *_settings(row)] if explains else []),
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


class CompactTable(AnswerTable[CompactForecast]):
    """The forecasts of all partitions.

    impact: the command that shows what the clean means for groups of consumers; None: there is none.
    """

    def __init__(self, impact: str | None = None, *, has_details: bool = False, explains: bool = False) -> None:
        super().__init__(has_details=has_details, explains=explains)
        self._impact = impact
        self._forecasts: list[CompactForecast] = []

    def write(self, forecast: CompactForecast) -> None:
        """Keep the forecast of the partition; without its segments and keys, unless details are shown."""
        self._forecasts.append(forecast if self.has_details else replace(forecast, passes=(), segments=(), keys=()))
        self.add_findings(finding.row() for finding in forecast.findings)

    def answer(self) -> Answer:
        """Return the verdict, and the rows: those that fail, those held back, and those that save most."""
        rows = [each.partition for each in self._forecasts]
        if not rows:
            return NOTHING
        verdict, style = verdict_of(rows)
        shown = [each for each in self._forecasts if self.has_details or _says_something(each.partition)]
        shown = shown if shown or len(rows) > 1 else self._forecasts
        rest = [_why_idle(row) for row in rows if not any(each.partition is row for each in shown)]
        is_said = all(row["state"] == "not-compacted" for row in rows)
        held = list(dict.fromkeys(one for each in self._forecasts for one in each.held))
        return Answer(
            verdict=verdict,
            style=style,
            below=(held_note(held),) if held else (),
            commands=_transaction_commands(self._forecasts),
            lines=() if is_said else tuple(map(line_of, sorted(shown, key=_weight))),
            rest="" if is_said else counted_rest(rest, "with nothing to clean", others=bool(shown)),
        )

    def details(self) -> list[Text]:
        """Return the partitions in full, if they are asked for."""
        if not self.has_details:
            return []
        compacted = [each for each in self._forecasts if each.partition["state"] != "not-compacted"]
        has_title, explains = len(self._forecasts) > 1, self.explains
        return [
            line
            for each in sorted(compacted, key=_weight)
            for line in detail_lines(each, self.width, has_title=has_title, explains=explains)
        ]

    def basis(self) -> list[Text]:
        """Return assumed values and the release."""
        assumed = list(dict.fromkeys(one for each in self._forecasts for one in each.assumptions))
        lines = assumed_lines(assumed, self.width)
        idle = [each.idle for each in self._forecasts if each.idle is not None]
        lines += unknown_lines(unknown_topics(idle, ["cleanup.policy"]), self.width)
        partitions = [each.partition for each in self._forecasts]
        columns = ("release", "release_evidence", "is_release_certain")
        for release, evidence, is_certain in dict.fromkeys(tuple(map(row.get, columns)) for row in partitions):
            split = str(evidence).split("\n")
            lines += rule_lines(release, split, self.width, is_certain=is_certain, explains=self.explains)
        if self._impact is not None and any(row["state"] == "cleanable" for row in partitions):
            lines.append(impact_line(self._impact))
        return lines


def _says_something(row: Row) -> bool:
    """Return whether there is more to say of a partition than that the cleaner has nothing to do."""
    if row["state"] == "nothing-cleanable":
        return row.get("held_back_by") not in {_ACTIVE, None}
    return row["state"] in {"fails", "cleanable", "not-dirty-enough"}


def _why_idle(row: Row) -> str:
    if row["state"] == "nothing-cleanable":
        return _HOLDERS[_ACTIVE] if row.get("held_back_by") == _ACTIVE else plain(row.get("reason"))
    return _WHY_NOT.get(str(row["state"]), plain(row.get("reason")))


def _weight(forecast: CompactForecast) -> tuple[bool, bool, bool, int]:
    """Return the order of rows: failing cleans, what holds the cleaner back, then those that save most."""
    row = forecast.partition
    is_held = row["state"] == "nothing-cleanable" and _says_something(row)
    return row["state"] != "fails", not is_held, not _says_something(row), -saved_bytes(row)
