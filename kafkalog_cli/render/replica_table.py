"""Comparisons of the copies of partitions for people: which copy to keep first, then the partitions that differ."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from rich.text import Text

from kafkalog_cli.render.cells import NONE, number, plain, span, time_cell
from kafkalog_cli.render.grid import TableColumn, more_line, number_column, table_lines, word_column
from kafkalog_cli.render.summary import SummaryTable, sentence_texts, wrapped_texts
from kafkalog_core.command_lines import shell_line
from kafkalog_core.findings import Finding
from kafkalog_core.ops.replicas.choices import GroupCosts
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kafkalog_core.ops.copies.compare import Comparison
    from kafkalog_core.ops.impact.outcomes import Impact

__all__ = ["ReplicaTable"]

Row = dict[str, object]

SHOWN_REPLICAS: Final = 100
SHOWN_RANGES: Final = 20
SHOWN_GROUPS: Final = 5
_BAD: Final = frozenset({"divergent", "damaged", "missing", "another-topic"})
_ORDER: Final = (
    "divergent",
    "damaged",
    "missing",
    "another-topic",
    "behind",
    "compacted",
    "trimmed",
    "identical",
    "alone",
)
_ALIKE: Final = frozenset({"identical", "alone"})
_CLEAN: Final = frozenset({*_ALIKE, "compacted", "trimmed"})
"""States of partitions in which no copy lacks a record that it should have."""
_BROKER: Final = "broker "
_LACKS: Final = ("damaged", "missing", "behind", "compacted", "trimmed")


def _lacks(row: Mapping[str, object]) -> str:
    parts = [f"{row[f'lacks_{name}']} {name}" for name in _LACKS if row.get(f"lacks_{name}")]
    return ", ".join(parts) or NONE


def _offsets(row: Mapping[str, object]) -> str:
    start, end = row.get("log_start_offset"), row.get("log_end_offset")
    if not isinstance(start, int) or not isinstance(end, int):
        return NONE
    return span(start, end - 1) if end > start else "none"


_COPIES: Final = (
    word_column("copy", "name"),
    word_column("state", "state"),
    number_column("epoch", "leader_epoch"),
    TableColumn("offsets", _offsets, right=True),
    number_column("high watermark", "high_watermark", 2),
    number_column("records", "records", 3),
    number_column("only here", "only_here"),
    TableColumn("lacks", _lacks, rank=1),
    word_column("path", "path", 4),
)


class ReplicaTable(SummaryTable["Comparison | Finding | GroupCosts"]):
    """The comparisons of replicas, the worst first; partitions whose copies are identical are only counted."""

    def __init__(self) -> None:
        super().__init__()
        self._states: Counter[str] = Counter()
        self._keeps: Counter[str | None] = Counter()
        self._ahead: Counter[str | None] = Counter()
        self._at_risk = 0
        self._worst: list[Comparison] = []
        self._costs: GroupCosts | None = None

    def write(self, item: Comparison | Finding | GroupCosts) -> None:
        """Count a comparison, and keep it if it is among the worst; keep a finding, and what choices cost."""
        if isinstance(item, Finding):
            self.add_findings([item.row()])
            return
        if isinstance(item, GroupCosts):
            self._costs = item
            return
        row = item.replica
        state = str(row["state"])
        self._states[state] += 1
        self._at_risk += number(row, "records_at_risk")
        self.add_findings(finding.row() for finding in item.findings if not finding.code.startswith("replicas."))
        if state not in _CLEAN:
            keeps = self._keeps if state in _BAD else self._ahead
            keeps[_names(item.copies).get(row.get("keep"))] += 1
        if state not in _ALIKE:
            self._worst = sorted([*self._worst, item], key=_severity)[:SHOWN_REPLICAS]

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer and the partitions whose copies differ."""
        del summary
        style = "bold red" if any(self._states[state] for state in _BAD) else "bold green"
        lines = wrapped_texts(self._headline(), self.width, style)
        for item in self._worst:
            lines += _lines(item, self.width)
            lines += self._cost_lines(item)
        differ = sum(count for state, count in self._states.items() if state not in _ALIKE)
        return lines + more_line(differ - len(self._worst), "partition") + self._unknown_lines()

    def _headline(self) -> str:
        """Return `Keep broker 2's copy of orders-0; 50 records are only on broker 1: ... 9 partitions: ...`."""
        parts = [f"{self._states[state]} {state}" for state in _ORDER if self._states[state]]
        counts = f"{count_of(sum(self._states.values()), 'partition')}: {', '.join(parts) or 'none'}"
        # Copies that end before others catch up by themselves, so they matter where nothing else does.
        keeps = self._keeps or self._ahead
        if not keeps:
            return counts
        return f"{_answer(self._worst[0]) if keeps.total() == 1 else self._answer_of_many(keeps)}. {counts}"

    def _answer_of_many(self, keeps: Counter[str | None]) -> str:
        first = next(iter(keeps))
        is_one = len(keeps) == 1 and first is not None and first.startswith(_BROKER)
        whose = f"{first}'s copies" if is_one else "the copies marked keep"
        text = f"Keep {whose} of {count_of(keeps.total(), 'partition')}"
        if keeps[None]:
            text += f"; of {count_of(keeps[None], 'partition')} the disks do not show which copy to keep"
        if self._at_risk:
            text += f"; {count_of(self._at_risk, 'record')} {_are(self._at_risk)} only in other copies: save them first"
        return text

    def _cost_lines(self, item: Comparison) -> list[Text]:
        """Return what each choice costs each group: those for which nothing changes are counted."""
        place = item.replica["topic"], item.replica["partition"]
        of_copies: dict[str | None, list[Impact]] = {}
        for each in self._costs.impacts if self._costs is not None else ():
            if each.commit.place == place:
                of_copies.setdefault(each.path, []).append(each)
        names, lines = _names(item.copies), list[Text]()
        for path, impacts in of_copies.items():
            changed = [each for each in impacts if each.effect != "unchanged"]
            same = len(impacts) - len(changed)
            parts = [f"{count_of(same, 'group')} {'reads' if same == 1 else 'read'} on as before"] if same else []
            if changed:
                does = "does" if len(changed) == 1 else "do"
                parts.append(f"{count_of(len(changed), 'group')} {does} not{'' if same else ' read on as before'}")
            text = f"If {_copy_of(names, path)} is kept, {', and '.join(parts)}"
            lines += wrapped_texts(f"{text}{':' if changed else '.'}", self.width, "")
            for each in changed[:SHOWN_GROUPS]:
                lines += sentence_texts(f"  group {each.commit.group}: {each.detail}", self.width, "", indent="    ")
            lines += more_line(len(changed) - SHOWN_GROUPS, "group")
        fork = item.replica.get("divergent_offset")
        past = {each.commit.group for some in of_copies.values() for each in some if _is_past(each, fork)}
        if past:
            text = f"{count_of(len(past), 'group')} {'is' if len(past) == 1 else 'are'} past offset {fork}: what was "
            text += "read there is in one history only, and commits do not show in which."
            lines += wrapped_texts(text, self.width)
        return lines

    def _unknown_lines(self) -> list[Text]:
        """Return why it is unknown what choices cost groups."""
        costs = self._costs
        if costs is None or (costs.impacts and not costs.problems):
            return []
        why = "; ".join(costs.problems[:SHOWN_GROUPS])
        if not costs.problems:
            text = "No group has committed an offset of these partitions."
        elif costs.impacts:
            text = f"Commits of groups may be missing: {why}."
        else:
            text = f"What each choice costs the groups of consumers is unknown: {why}."
        return [Text(), *wrapped_texts(text, self.width, "yellow" if costs.problems else "")]


def _answer(item: Comparison) -> str:
    """Return which copy of one partition to keep, and what only others have."""
    row, names = item.replica, _names(item.copies)
    title = f"{plain(row['topic'])}-{row['partition']}"
    if row["state"] == "another-topic":
        return f"The directories {title} are of different topics"
    if row.get("keep") is None:
        return f"The disks do not show which copy of {title} to keep"
    name = names[row["keep"]]
    text = f"Keep {name}'s copy of {title}" if name.startswith(_BROKER) else f"Keep {name}"
    records = number(row, "records_at_risk")
    if not records:
        return f"{text}; no other copy has a record that it lacks"
    paths = row["at_risk_in"] if isinstance(row["at_risk_in"], list) else []
    alone = [copy["path"] for copy in item.copies if copy["path"] in paths and copy["only_here"] == records]
    where = ", ".join(names[path] for path in alone or paths)
    text += f"; {count_of(records, 'record')} {_are(records)} only on {where}: offsets "
    text += span(row["at_risk_first_offset"], row["at_risk_last_offset"])
    first_ms, last_ms = row["at_risk_first_timestamp_ms"], row["at_risk_last_timestamp_ms"]
    return text if first_ms is None else f"{text}, {time_cell(first_ms)} to {time_cell(last_ms)}"


def _is_past(impact: Impact, fork: object) -> bool:
    return isinstance(fork, int) and impact.commit.offset > fork


def _copy_of(names: Mapping[object, str], path: str | None) -> str:
    name = names.get(path, plain(path))
    return f"{name}'s copy" if name.startswith(_BROKER) else f"the copy {name}"


def _are(records: int) -> str:
    return "is" if records == 1 else "are"


def _severity(item: Comparison) -> tuple[int, int, str, int]:
    """Return the order of a comparison: by state, the worst first, then by records at risk."""
    row = item.replica
    return (
        _ORDER.index(str(row["state"])),
        -number(row, "records_at_risk"),
        str(row["topic"]),
        number(row, "partition"),
    )


def _lines(item: Comparison, width: int) -> list[Text]:
    row = item.replica
    state = str(row["state"])
    since = "" if row.get("divergent_offset") is None else f" from offset {row['divergent_offset']} on"
    title = f"{plain(row['topic'])}-{row['partition']}: {state}{since}, {count_of(row['copies'], 'copy')}"
    lines = [Text(), *wrapped_texts(title, width, "bold red" if state in _BAD else "bold cyan")]
    lines += sentence_texts(str(row.get("reason")), width, "bold")
    names = _names(item.copies)
    rows = [copy | {"name": names[copy["path"]]} for copy in item.copies]
    # A path that is the name needs no column of its own.
    columns = _COPIES if any(name.startswith(_BROKER) for name in names.values()) else _COPIES[:-1]
    lines += table_lines(columns, rows, width, noun="copy")
    for copy in item.copies:
        if copy["state"] not in {"keep", "identical"}:
            lines += sentence_texts(f"{names[copy['path']]}: {copy['advice']}", width)
    lines += _range_lines(item.ranges, names, width)
    if row.get("keep") is not None and state in _BAD:
        line = shell_line(["kafkalog", "serve", str(row["keep"])])
        lines += sentence_texts(f"To read the copy to keep with any Kafka client: {line}", width)
    return lines


def _names(copies: Sequence[Row]) -> dict[object, str]:
    """Return the names of copies in sentences, by their paths: `broker 1` if only one copy is of that broker."""
    nodes = Counter(copy.get("node_id") for copy in copies)
    return {
        copy["path"]: f"{_BROKER}{plain(copy['node_id'])}"
        if copy.get("node_id") is not None and nodes[copy["node_id"]] == 1
        else plain(copy["path"])
        for copy in copies
    }


def _range_lines(ranges: Sequence[Row], names: Mapping[object, str], width: int) -> list[Text]:
    lines: list[Text] = []
    for row in ranges[:SHOWN_RANGES]:
        has = row["has"] if isinstance(row["has"], dict) else {}
        texts: dict[str, list[str]] = {}
        for path, text in has.items():
            texts.setdefault(text, []).append(names.get(path, plain(path)))
        what = "; ".join(f"{text} in {', '.join(paths)}" for text, paths in texts.items())
        offsets = span(row["first_offset"], row["last_offset"])
        lines += wrapped_texts(
            f"offsets {offsets}, {row['kind']}, {count_of(row['records'], 'record')}{_times(row)}: {what}", width, ""
        )
    return lines + more_line(len(ranges) - SHOWN_RANGES, "range")


def _times(row: Row) -> str:
    first_ms, last_ms = row["first_timestamp_ms"], row["last_timestamp_ms"]
    return "" if first_ms is None else f", {time_cell(first_ms)} to {time_cell(last_ms)}"
