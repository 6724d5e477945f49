"""Groups for people: the answer in one sentence, a line a group, and of a group that was named members and offsets."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final, cast

from rich.text import Text

from kafkalog_cli.render.cells import NONE, number, plain, safe_text, time_cell
from kafkalog_cli.render.grid import (
    TableColumn,
    count_column,
    range_column,
    table_lines,
    time_column,
    word_column,
)
from kafkalog_cli.render.summary import SummaryTable, closed, sentence_texts
from kafkalog_core.command_lines import shell_line
from kafkalog_core.ops.groups.request import GroupBasis, GroupResult
from kafkalog_core.ops.groups.shares import batches_text
from kafkalog_core.text import count_of, duration, first_of, moment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["GroupTable"]

Row = dict[str, object]

SHOWN_GROUPS: Final = 200
SHOWN_OFFSETS: Final = 500
_WORDS: Final = {
    "past-end": "past the end",
    "below-start": "below the start",
    "topic-recreated": "of a topic that was created again",
    "topic-deleted": "of a deleted topic",
    "unknown-then": "unknown at that moment",
}
"""The states of offsets that are named in the line of a group."""
_BAD: Final = frozenset({"past-end", "below-start", "topic-recreated"})
"""Those by which a consumer is reset when it starts again."""


def _wrong(row: Mapping[str, object]) -> str:
    """Return what is wrong with the offsets of a group."""
    problems = cast("Mapping[str, int]", row["problems"])
    texts = [f"{count} {_WORDS.get(state, state)}" for state, count in problems.items()]
    if row["pending"]:
        texts.append(f"{row['pending']} in an open transaction")
    if row["expired"]:
        texts.append(f"{row['expired']} expired")
    return ", ".join(texts) or NONE


def _lag(row: Mapping[str, object]) -> str:
    """Return the lag; with a plus sign that of the logs that are here."""
    if row["lag"] is None and row["known_lag"] is not None:
        return f"{row['known_lag']:,}+"
    return NONE if row["lag"] is None else f"{row['lag']:,}"


_GROUPS: Final = (
    word_column("group", "group"),
    word_column("type", "group_type", 2),
    word_column("state", "state"),
    count_column("members", "members", 3),
    TableColumn("assignor", lambda row: plain(row["protocol"] or None), rank=5),
    count_column("partitions", "partitions", 4),
    TableColumn("lag", _lag, right=True),
    time_column("last commit (UTC)", "last_commit_ms", 1),
    TableColumn("what is wrong", _wrong, flexible=True, has_words=True),
)


def _assignment(row: Mapping[str, object]) -> str:
    places = cast("Mapping[str, Sequence[int]]", row["assignment"])
    return safe_text(", ".join(f"{topic}-{each}" for topic, numbers in places.items() for each in numbers)) or NONE


_MEMBERS: Final = (
    word_column("member", "member_id", 2),
    word_column("client", "client_id"),
    word_column("host", "host", 3),
    word_column("instance", "instance_id", 4),
    TableColumn("assignment", _assignment, flexible=True, has_words=True),
)


def _ago(row: Mapping[str, object]) -> str:
    """Return how far the record at the offset is from the last ones, in time."""
    return NONE if row.get("lag_ms") is None else duration(number(row, "lag_ms"))


def _delivered(row: Mapping[str, object]) -> str:
    """Return what a share group has been given after its start offset."""
    return batches_text(cast("Sequence[dict[str, object]]", row.get("share_batches") or ())) or NONE


_OFFSETS: Final = (
    TableColumn("partition", lambda row: safe_text(f"{row['topic']}-{row['partition']}")),
    count_column("offset", "offset"),
    time_column("committed (UTC)", "commit_timestamp_ms", 1),
    range_column("log", "log_start_offset", "log_end_offset", 2),
    count_column("lag", "lag"),
    TableColumn("lag in time", _ago, right=True, rank=3),
    TableColumn("by (inferred)", lambda row: plain(row.get("member_id")), rank=5),
    TableColumn("metadata", lambda row: plain(row.get("metadata") or None)[:40], rank=6),
    TableColumn("delivered after it", _delivered, rank=1),
    TableColumn("expires (UTC)", lambda row: time_cell(row.get("expires_ms")), rank=4),
    TableColumn("what is wrong", lambda row: plain(row.get("detail")), flexible=True, has_words=True),
)


class GroupTable(SummaryTable["GroupBasis | GroupResult"]):
    """All groups, or those that were named."""

    def __init__(self, named: Sequence[str], paths: Sequence[str]) -> None:
        """Take the ids of the groups that were named, and the paths on the command line."""
        super().__init__()
        self._named = tuple(named)
        self._paths = tuple(paths)
        self._results: list[GroupResult] = []
        self._notes: tuple[str, ...] = ()
        self._known_from_ms: int | None = None
        self._unread = ""

    def write(self, item: GroupBasis | GroupResult) -> None:
        """Keep a group, and at the end what the answer depends on."""
        if isinstance(item, GroupResult):
            self._results.append(item)
            return
        self._notes = item.notes
        self._known_from_ms = item.known_from_ms
        if any(finding.code == "groups.unread" for finding in item.findings):
            self._unread = "; what cannot be read may hold more"
        self.add_findings(finding.row() for finding in item.findings)

    def body(self, summary: Mapping[str, object]) -> list[Text]:
        """Return the answer, then the groups, or the members and offsets of those that were named."""
        del summary
        rows = [each.group for each in self._results]
        if not self._named:
            verdict = _verdict(rows, self._known_from_ms) + self._unread
            lines = sentence_texts(closed(verdict), self.width, "bold")
            shown = sorted(rows, key=_weight)
            lines += table_lines(_GROUPS, shown, self.width, noun="group", most=SHOWN_GROUPS, style_of=_style)
            if not rows and self._known_from_ms is not None:
                line = shell_line(["kafkalog", "groups", "--at", moment(self._known_from_ms), *self._paths])
                lines += [Text(), Text(f"the first known state: {line}", "bold")]
            if rows:
                line = shell_line(["kafkalog", "groups", "--group", str(shown[0]["group"]), *self._paths])
                lines += [Text(), Text(f"members and offsets of one group: {line}", "bold")]
            return lines
        lines = []
        for each in self._results:
            lines += [Text()] if lines else []
            lines += self._detailed(each)
        return lines

    def notes(self) -> list[Text]:
        """Return what the answer depends on."""
        return [Text(), *(line for note in self._notes for line in sentence_texts(note, self.width, "dim"))]

    def _detailed(self, result: GroupResult) -> list[Text]:
        name = str(result.group["group"])
        sentence = _sentence(result.group, result.offsets) + self._unread
        lines = sentence_texts(closed(sentence), self.width, "bold")
        lines += table_lines(_MEMBERS, result.members, self.width, noun="member", most=SHOWN_GROUPS)
        lines += table_lines(
            _OFFSETS, result.offsets, self.width, noun="offset", most=SHOWN_OFFSETS, style_of=_offset_style
        )
        is_old = result.group["group_type"] == "zookeeper"
        asked = ("zookeeper", "--history", f"/consumers/{name}") if is_old else ("groups", "--history", name)
        history = shell_line(["kafkalog", *asked, *self._paths])
        lines += [Text(), Text(f"what happened to it: {history}", "bold")]
        if any(row["state"] in _BAD for row in result.offsets):
            export = shell_line(["kafkalog", "groups", "--group", name, "--export", "csv", *self._paths])
            lines.append(Text(f"its offsets, to be corrected and set by kafka-consumer-groups.sh: {export}", "bold"))
        return lines


def _verdict(rows: Sequence[Row], known_from_ms: int | None) -> str:
    """Return the answer about all groups.

    known_from_ms: as in `GroupBasis`.
    """
    if not rows and known_from_ms is not None:
        return f"NOTHING IS KNOWN OF THAT MOMENT: the first record in these logs is of {moment(known_from_ms)}"
    if not rows:
        return "NO GROUPS: no record of a group is in these logs"
    counts = Counter(str(row["state"]) for row in rows)
    states = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
    parts = [f"{count_of(len(rows), 'group')} ({states})", _total_lag(rows)]
    bad = [row for row in rows if _BAD & cast("Mapping[str, int]", row["problems"]).keys()]
    if bad:
        names = first_of([safe_text(str(row["group"])) for row in bad])
        parts.append(f"A RESET AWAITS {names}")
    pending = sum(number(row, "pending") for row in rows)
    if pending:
        parts.append(f"{count_of(pending, 'offset')} in open transactions")
    expired = sum(number(row, "expired") for row in rows)
    if expired:
        parts.append(f"{count_of(expired, 'offset')} will be deleted at the next check of the coordinator")
    return "; ".join(parts)


def _total_lag(rows: Sequence[Row]) -> str:
    """Return how much groups have not read, as far as their logs are known."""
    committed = [row for row in rows if row["partitions"]]
    if not committed:
        return "no offset is committed"
    known = [row for row in committed if row["known_lag"] is not None]
    if not known:
        return "the lag is unknown, as none of their logs can be read here"
    text = f"{count_of(sum(number(row, 'known_lag') for row in known), 'record')} not yet read"
    return text if all(row["lag"] is not None for row in committed) else f"{text} in the logs that are here"


def _sentence(row: Row, offsets: Sequence[Row]) -> str:
    """Return the answer about one group."""
    name = safe_text(str(row["group"]))
    facts = [str(row["group_type"]), str(row["state"])]
    if row["protocol"]:
        facts.append(f"assignor {safe_text(str(row['protocol']))}")
    facts.append(count_of(row["members"], "member"))
    lag = "its lag is unknown" if row["known_lag"] is None else f"{count_of(row['known_lag'], 'record')} not yet read"
    if row["lag"] is None and row["known_lag"] is not None:
        missing = sum(each["offset"] is not None and each["lag"] is None for each in offsets)
        lag += f" in the logs that are here ({count_of(missing, 'partition')} not on these disks)"
    offset = "start offset" if row["group_type"] == "share" else "committed offset"
    parts = [f"{name}: {', '.join(facts)}", f"{count_of(row['partitions'], offset)}, {lag}"]
    if row["last_commit_ms"] is not None:
        parts.append(f"last commit at {time_cell(row['last_commit_ms'])}")
    wrong = _wrong(row)
    return "; ".join([*parts, *([] if wrong == NONE else [wrong.upper() if row["problems"] else wrong])])


def _weight(row: Row) -> tuple[bool, int, str]:
    """Return the order of groups: those that are reset first, then by lag."""
    is_bad = bool(_BAD & cast("Mapping[str, int]", row["problems"]).keys())
    return not is_bad, -number(row, "known_lag"), str(row["group"])


def _style(row: Mapping[str, object]) -> str:
    problems = cast("Mapping[str, int]", row["problems"])
    return "bold red" if _BAD & problems.keys() else "yellow" if _wrong(row) != NONE else ""


def _offset_style(row: Mapping[str, object]) -> str:
    return "bold red" if row["state"] in _BAD else "yellow" if row["detail"] is not None else ""
