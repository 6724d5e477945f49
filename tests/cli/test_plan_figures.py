"""Commands that forecast and change, on the log directory of a real broker: every figure is that of the files.

What is said of a file that changes is compared with the file before and afterwards; what is said of records with
`tests.support.plain_log`.
"""

from __future__ import annotations

import hashlib
import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from kafkalog_core.findings.catalog import FINDING_TYPES
from tests.support import plain_log
from tests.support.figures import DEMO, check, check_all, of_logs, partitions, place, run, summary
from tests.support.plain_log import log_of, segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sized
    from pathlib import Path

    from tests.support.figures import Ran, Row

NOW = "2026-11-28T00:00:00Z"
NOW_MS = 1_795_824_000_000


def _of_orders(**settings: object) -> tuple[str, ...]:
    """Options that give the topic settings, by their names with `_` for `.`."""
    pairs = [("--topic-config", f"orders:{name.replace('_', '.')}={value}") for name, value in settings.items()]
    return tuple(word for pair in pairs for word in pair)


COMPACTED = _of_orders(cleanup_policy="compact", min_cleanable_dirty_ratio=0)
DELETED = _of_orders(cleanup_policy="delete", retention_ms=-1, retention_bytes=2100)
NOTHING_READ = {"partitions": 0, "bytes": 0, "batches": 0, "records": 0}


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """The log directory, to be changed."""
    shutil.copytree(DEMO, tmp_path / "kafka")
    return tmp_path / "kafka"


# --- nothing to do ----------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("command", "kinds"),
    [
        (("checkpoint",), {"plan", "text_file"}),
        (("truncate", "--as-broker"), {"plan", "setting"}),
        (("truncate", "--at-damage"), {"plan"}),
        (("retain", "--now", NOW), {"retention", "retained_segment"}),
        (("compact", "--now", NOW), {"compaction", "cleaned_segment"}),
        (("roll",), {"rolling", "rolled_segment"}),
    ],
)
def test_nothing_is_found_in_a_clean_log_directory(command: tuple[str, ...], kinds: set[str]) -> None:
    paths = [DEMO] if command[0] in {"checkpoint", "truncate"} else partitions(DEMO)[1:]
    ran = run(*command, "--jobs", 1, *paths)
    assert ran.status == 0
    assert {row["type"] for row in ran.rows} == {*kinds, "summary"}
    assert ran.summary["severities"] == {}
    for plan in ran.of("plan"):
        assert (plan["state"], plan["changes"]) == ("nothing", 0)
    if command[0] in {"checkpoint", "truncate"}:
        summary(ran, files=0, **NOTHING_READ)


def test_text_files() -> None:
    rows = run("checkpoint", "--jobs", 1, DEMO).of("text_file")
    expected = []
    for path in [DEMO, *partitions(DEMO)]:
        known = {"topic": None, "partition": None} if path == DEMO else place(path)
        counts: dict[Path, Callable[[Path], Sized]] = {}
        for name in (
            "cleaner-offset",
            "log-start-offset",
            "recovery-point-offset",
            "replication-offset",
            "leader-epoch",
        ):
            counts[path / f"{name}-checkpoint"] = plain_log.text_entries
        for name in ("meta.properties", "partition.metadata"):
            counts[path / name] = plain_log.properties
        counts.pop(DEMO / "__cluster_metadata-0" / "partition.metadata", None)
        expected += [
            known | {"file": str(file), "entries": len(read(file))} for file, read in counts.items() if file.exists()
        ]
    expected.sort(key=lambda row: (row["topic"] or "", row["partition"] or 0, row["file"]))
    check_all(rows, [row | {"lines": 0, "verdict": "good", "problem": None} for row in expected])


# --- changes ----------------------------------------------------------------------------------------------------------
class Kept(NamedTuple):
    """A file as it is."""

    content: bytes
    mtime_ns: int

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.content).hexdigest()


def tree(directory: Path) -> dict[str, Kept]:
    """All files but those of journals."""
    return {
        str(path): Kept(path.read_bytes(), path.stat().st_mtime_ns)
        for path in directory.rglob("*")
        if path.is_file() and "kafkalog-" not in str(path.relative_to(directory))
    }


def _changes(before: dict[str, Kept], after: dict[str, Kept], named: set[str]) -> list[Row]:
    """The `change` rows from one state of a directory to another; files that are `named` may have the same content."""
    rows: list[Row] = []
    for file in sorted(before.keys() | after.keys()):
        old, new = before.get(file), after.get(file)
        if old is not None and new is not None and old.content == new.content and file not in named:
            continue
        row: Row = {"file": file, "sha256_after": None}
        row |= {"bytes_before": None, "mtime_before_ms": None, "sha256_before": None, "bytes_after": None}
        if old is not None:
            row |= {"bytes_before": len(old.content), "mtime_before_ms": old.mtime_ns // 1_000_000}
            row["sha256_before"] = old.sha256
        if new is not None:
            row["bytes_after"] = len(new.content)
        if old is None or new is None:
            row["kind"] = "remove" if new is None else "create"
        else:
            row["kind"] = "replace"
            row["is_start"] = old.content.startswith(new.content), new.content.startswith(old.content)
        if new is not None:
            row["sha256"] = new.sha256
        rows.append(row)
    return rows


def _check_changes(ran: Ran, before: dict[str, Kept], after: dict[str, Kept], state: str) -> None:
    """Compare what is said of each file: a cut and an extension are of a file whose start stays."""
    (plan,) = ran.of("plan")
    rows = sorted(ran.of("change"), key=lambda row: row["file"])
    expected = _changes(before, after, {row["file"] for row in rows if row["kind"] == "replace"})
    for row, wanted in zip(rows, expected, strict=True):
        is_cut, is_longer = wanted.pop("is_start", (False, False))
        sha256 = wanted.pop("sha256", None)
        if row["kind"] in {"cut", "extend"}:
            assert (is_cut, is_longer)[row["kind"] == "extend"]
            wanted["kind"] = row["kind"]
        if row["kind"] not in {"cut", "remove"}:
            wanted["sha256_after"] = sha256
        is_top = "/" not in row["file"].removeprefix(plan["root"] + "/")
        names = {"topic": None, "partition": None} if is_top else {}
        check(row, {"topic": row["topic"], "partition": row["partition"], "state": state} | names | wanted)
    assert plan["changes"] == len(expected) == ran.summary["files"]
    touched = {(row["topic"], row["partition"]) for row in rows if row["topic"] is not None}
    assert ran.summary["partitions"] == len(touched)
    written = sum(row["bytes_after"] for row in rows if row["kind"] in {"create", "replace"})
    assert plan["needed_bytes"] is None or plan["needed_bytes"] >= written


def _break_a_line(log_dir: Path) -> None:
    with (log_dir / "replication-offset-checkpoint").open("a") as file:
        file.write("what is no entry\n")


@pytest.mark.parametrize(
    ("command", "target", "status"),
    [
        (("reindex", "--all"), "orders-0", 0),
        (("truncate", "--to-offset", 10), "payments-0", 4),
        (("checkpoint",), "", 4),
        (("retain", *DELETED, "--now", NOW), "orders-1", 0),
        (("compact", *COMPACTED, "--now", NOW, "--assume-defaults"), "orders-0", 0),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_files_that_change(log_dir: Path, tmp_path: Path, command: tuple[Any, ...], target: str, status: int) -> None:
    """A plan, the plan carried out from its file, the journal of it, and all of it taken back."""
    if command[0] == "checkpoint":
        _break_a_line(log_dir)
    name, *options = command
    before, plan_file = tree(log_dir), tmp_path / "plan.json"
    planned = run(name, "--jobs", 1, *options, "--plan-out", plan_file, log_dir / target)
    assert planned.status == status
    assert tree(log_dir) == before

    applied = run("apply", "--jobs", 1, plan_file)
    after = tree(log_dir)
    assert applied.status == 0, applied.text
    _check_changes(applied, before, after, "done")
    (plan,) = applied.of("plan")
    assert (plan["state"], plan["command"]) == ("applied", name)
    if planned.of("plan"):
        _check_changes(planned, before, after, "planned")

    (journal,) = run("undo", "--list", log_dir).of("journal")
    made = [path for path in log_dir.rglob("*") if path.is_file() and "kafkalog-" in str(path.relative_to(log_dir))]
    kept = sum(path.stat().st_size for path in made)
    assert (journal["run"], journal["files"], journal["held_bytes"]) == (plan["run"], len(applied.of("change")), kept)

    undone = run("undo", "--apply", log_dir)
    assert undone.status == 0
    assert tree(log_dir) == before
    _check_changes(undone, after, before, "done")
    left = [path for path in log_dir.rglob("*") if path.is_file() and "kafkalog-" in str(path.relative_to(log_dir))]
    freed = sum(path.stat().st_size for path in left)
    (pruned,) = run("undo", "--prune", "--apply", log_dir).of("plan")
    assert f" {freed:,} bytes" in pruned["message"]
    assert not [path for path in log_dir.rglob("*") if "kafkalog-" in str(path.relative_to(log_dir))]


def test_what_a_cut_loses(log_dir: Path) -> None:
    """All that is at offset 10 or behind it, markers not counted; the high watermark is the end of the log."""
    path = log_dir / "payments-0"
    lost = [batch for batch in log_of(path) if batch.last_offset >= 10]
    data = [batch for batch in lost if not batch.is_control]
    ran = run("truncate", "--jobs", 1, "--to-offset", 10, path)
    (row,) = ran.of("loss")
    transactions = [batch for before, batch in zip([lost[0], *lost], lost, strict=False) if before.is_control]
    check(
        row,
        place(path)
        | {
            "first_offset": lost[0].base_offset,
            "next_offset": lost[-1].last_offset + 1,
            "records": sum(len(batch.records) for batch in data),
            "committed_records": sum(len(batch.records) for batch in data),
            "bytes": sum(batch.size_bytes for batch in lost),
            "first_timestamp_ms": min(batch.max_timestamp_ms or -1 for batch in data),
            "max_timestamp_ms": max(batch.max_timestamp_ms or -1 for batch in lost),
            "transactions": 1 + len(transactions),
            "producers": len({batch.producer_id for batch in lost}),
        },
    )
    assert ran.summary["codes"] == {"truncate.cut": 1, "truncate.open-transactions": 1}


# --- forecasts --------------------------------------------------------------------------------------------------------
def _spans(path: Path) -> list[tuple[int, int, Path]]:
    """Base offset, that of the next one, and file of each segment."""
    bases = [*segments(path)]
    ends = [*bases[1:], log_of(path)[-1].last_offset + 1]
    return list(zip(bases, ends, segments(path).values(), strict=True))


def _largest(log: Path) -> int:
    return max(batch.max_timestamp_ms or -1 for batch in plain_log.batches_of(log))


@pytest.mark.parametrize("name", ["orders-0", "orders-1"])
def test_retention_by_size(name: str) -> None:
    """Segments go from the oldest on, as long as what stays is not below the limit."""
    path = DEMO / name
    spans = _spans(path)
    total = kept = sum(log.stat().st_size for _, _, log in spans)
    deleted = []
    for base, _, log in spans:
        if kept - log.stat().st_size < 2100:
            break
        deleted.append(base)
        kept -= log.stat().st_size
    start = next((base for base, _, _ in spans if base not in deleted), spans[-1][1])
    end = spans[-1][1]
    ran = run("retain", "--now", NOW, *DELETED, "--what-if", "retention.ms=1", "--until", "2026-11-29", path)
    (row,) = ran.of("retention")
    figures = {
        "deleted_segments": len(deleted),
        "deleted_bytes": total - kept,
        "kept_bytes": kept,
        "kept_offsets": end - start,
        "new_log_start_offset": start,
    }
    check(
        row,
        place(path)
        | figures
        | {
            "state": "deletes" if deleted else "held",
            "now_ms": NOW_MS,
            "segments": len(spans),
            "bytes": total,
            "deleted_offsets": start - spans[0][0],
            "log_start_offset": spans[0][0],
            "high_watermark": end,
            "log_end_offset": end,
            "new_segment": False,
            "next_due_ms": None,
            "settings": row["settings"],
        },
    )
    limits = {key: value["value"] for key, value in row["settings"].items()}
    assert (limits["retention.bytes"], limits["retention.ms"], limits["cleanup.policy"]) == ("2100", "-1", "delete")
    check_all(
        ran.of("retained_segment"),
        [
            place(path)
            | {
                "segment": log.name,
                "base_offset": base,
                "next_offset": following,
                "size_bytes": log.stat().st_size,
                "is_active": log == spans[-1][2],
                "verdict": "delete" if base in deleted else "keep",
                "largest_timestamp_ms": _largest(log),
                "is_record_timestamp": True,
                "is_future": False,
                "due_ms": None,
            }
            for base, following, log in spans
        ],
    )
    all_gone = {"kept_segments": 1, "kept_bytes": 0, "kept_offsets": 0, "deleted_segments": len(spans)}
    outcomes = [
        {"scenario": None, "kept_segments": len(spans) - len(deleted)} | figures,
        {"scenario": "retention.ms=1", "deleted_bytes": total, "new_log_start_offset": end} | all_gone,
    ]
    wanted = [{key: value for key, value in each.items() if key != "deleted_offsets"} for each in outcomes]
    check_all(ran.of("retention_what_if")[:2], [place(path) | each for each in wanted])
    first_ms = NOW_MS + 30_000  # log.initial.task.delay.ms of 4.3
    events = [
        place(path)
        | {
            "segment": log.name,
            "time_ms": first_ms + delay_ms,
            "event": event,
            "size_bytes": log.stat().st_size,
            "log_start_offset": start,
            "log_bytes": kept,
        }
        for event, delay_ms in (("renamed", 0), ("removed", 60_000))
        for base, _, log in spans
        if base in deleted
    ]
    check_all(ran.of("retention_event"), events)
    summary(ran, files=0, **NOTHING_READ | {"partitions": 1}, severities=ran.summary["severities"], codes=_codes(ran))


def _codes(ran: Ran) -> Row:
    """Findings by code, counted from their rows."""
    return dict(sorted(Counter(row["code"] for row in ran.of("finding")).items()))


def test_retention_by_time_says_when() -> None:
    """A segment is due a millisecond after its age is the limit, and not before those before it."""
    path, week_ms = DEMO / "orders-0", 604_800_000
    settings = _of_orders(cleanup_policy="delete", retention_ms=week_ms)
    spans = _spans(path)
    oldest = min(_largest(log) for _, _, log in spans)
    ran = run("retain", "--now", oldest + week_ms, *settings, path)
    due: list[int] = []
    for _, _, log in spans:
        due.append(max([_largest(log) + week_ms + 1, *due]))
    rows = ran.of("retained_segment")
    assert [(row["verdict"], row["due_ms"]) for row in rows] == [("keep", each) for each in due]
    assert ran.of("retention")[0]["next_due_ms"] == due[0]
    gone = run("retain", "--now", due[-1], *settings, path)
    assert [row["verdict"] for row in gone.of("retained_segment")] == ["delete"] * len(spans)
    assert gone.of("retention")[0]["new_segment"] is True


def test_rolls() -> None:
    """By segment.bytes=3000, which the metadata log has; one partition rolled by its times."""
    paths = [path for path in partitions(DEMO) if path.name != "__cluster_metadata-0"]
    ran = run("roll", "--jobs", 1, DEMO)
    segment_rows: list[Row] = []
    rows: list[Row] = []
    for path in paths:
        spans = _spans(path)
        sizes = [log.stat().st_size for _, _, log in spans]
        reasons = ["time" if path.name == "payments-0" else "bytes"] * (len(spans) - 1)
        figures = {name: value for name, value in of_logs(path).items() if name in {"bytes", "batches", "records"}}
        rows.append(
            place(path)
            | figures
            | {
                "state": "predicted",
                "is_release_certain": True,  # its node registered with a level that 4.3 alone has
                "segments_before": len(spans),
                "segments_after": len(spans),
                "segments_at_most": None,
                "same_bases": len(spans),
                "rolls": dict(Counter(reasons)),
                "uncounted_batches": 0,
                "log_start_offset": spans[0][0],
                "log_end_offset": spans[-1][1],
                "smallest_bytes": min(sizes[:-1], default=None),
                "largest_bytes": max(sizes),
                "oversized_batches": 0,
            }
        )
        for (base, following, log), reason in zip(spans, [*reasons, None], strict=True):
            found = plain_log.batches_of(log)
            segment_rows.append(
                place(path)
                | {
                    "base_offset": base,
                    "next_offset": following,
                    "is_there": True,
                    "bytes": log.stat().st_size,
                    "batches": len(found),
                    "first_timestamp_ms": found[0].max_timestamp_ms,
                    "max_timestamp_ms": _largest(log),
                    "offset_entries": 0,  # no segment is larger than index.interval.bytes
                    "time_entries": 1,
                    "jitter_ms": 0,
                    "roll_reason": reason,
                }
            )
    check_all(
        ran.of("rolling"),
        [row | {"settings": said["settings"]} for row, said in zip(rows, ran.of("rolling"), strict=True)],
    )
    check_all(ran.of("rolled_segment"), segment_rows)
    summary(ran, **of_logs(*paths))


def _content(records: Iterable[plain_log.Record]) -> int:
    """Bytes of keys and values."""
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


def test_compaction(log_dir: Path) -> None:
    """Of the segment before the active one, the last record of each key stays; sizes are those of the clean itself."""
    path = log_dir / "orders-0"
    first, active = segments(path).values()
    sizes = [log.stat().st_size for log in (first, active)]
    batches = plain_log.batches_of(first)
    records = [record for batch in batches for record in batch.records]
    latest = {record.key: record for record in records}
    dropped = [record for record in records if latest[record.key] is not record]
    ran = run("compact", "--jobs", 1, "--now", NOW, *COMPACTED, "--biggest", 3, path)
    applied = run("compact", "--jobs", 1, "--now", NOW, *COMPACTED, "--assume-defaults", "--apply", path)
    assert applied.status == 0
    plain_log.batches_of.cache_clear()
    cleaned = plain_log.batches_of(first)
    assert [record for batch in cleaned for record in batch.records] == sorted(latest.values())
    counts = {
        "batches_before": len(batches),
        "batches_after": len(cleaned),
        "records_before": len(records),
        "records_after": len(latest),
        "bytes_before": sizes[0],
        "bytes_after": first.stat().st_size,
        "kept_records": {"latest-of-key": len(latest)},
        "kept_bytes": {"latest-of-key": _content(latest.values())},
        "dropped_records": {"superseded": len(dropped)},
        "dropped_bytes": {"superseded": _content(dropped)},
    }
    tombstones = {"tombstones_after": 0, "next_horizon_ms": None}
    base, end = int(active.stem), log_of(path)[-1].last_offset + 1
    (row,) = ran.of("compaction")
    check(
        row,
        place(path)
        | counts
        | tombstones
        | {
            "state": "cleanable",
            "is_release_certain": True,
            "would_run": True,
            "held_back_by": "active-segment",
            "held_back_until_ms": None,
            "now_ms": NOW_MS,
            "first_dirty_offset": 0,
            "first_uncleanable_offset": base,
            "log_start_offset": 0,
            "last_stable_offset": end,
            "high_watermark": end,
            "log_end_offset": end,
            "clean_bytes": 0,
            "cleanable_bytes": sizes[0],
            "uncleanable_bytes": sizes[1],
            "dirty_ratio": 1.0,
            "min_cleanable_dirty_ratio": 0.0,
            "passes": 1,
            "segments_before": 2,
            "segments_after": 2,
            "bytes_before": sum(sizes),
            "bytes_after": first.stat().st_size + sizes[1],
            "keys": len(latest),
            "lone_tombstone_keys": 0,
            "memory_bytes": 128 << 20,  # log.cleaner.dedupe.buffer.size
            "map_keys": int((128 << 20) // 24 * 0.9),  # 24 bytes an entry, log.cleaner.io.buffer.load.factor
            "checkpoint_offset": base,
            "settings": row["settings"],
        },
    )
    run_of = {"pass": 1, "first_dirty_offset": 0, "first_uncleanable_offset": base, "end_offset": base}
    of_pass = {"is_map_full": False, "keys": len(latest), "dirty_ratio": 1.0, "groups": 1, "sources": 1}
    check_all(ran.of("cleaning_pass"), [place(path) | run_of | of_pass | counts])
    nothing = dict.fromkeys(counts) | {"bytes_before": sizes[1], "bytes_after": sizes[1]}
    known = {"segment": active.name, "base_offset": base, "state": "active", "group": None}
    check_all(
        ran.of("cleaned_segment"),
        [
            place(path)
            | {"segment": first.name, "base_offset": 0, "state": "dirty", "group": 0}
            | {"max_timestamp_ms": max(batch.max_timestamp_ms or -1 for batch in batches)}
            | counts
            | tombstones,
            place(path)
            | known
            | {"max_timestamp_ms": _largest(active)}
            | nothing
            | tombstones
            | {"tombstones_after": None},
        ],
    )
    of_key: Counter[bytes | None] = Counter()
    for record in records:
        of_key[record.key] += _content([record])
    biggest = sorted(of_key.values(), reverse=True)[:3]
    rows = ran.of("big_key")
    assert [(row["rank"], row["bytes"], row["most_bytes"]) for row in rows] == [
        (rank, size, size) for rank, size in enumerate(biggest, start=1)
    ]
    for row in rows:
        of_one = [record for record in records if record.key == row["key"].encode()]
        assert (row["records"], row["bytes"]) == (len(of_one), _content(of_one))
    summary(ran, files=2, partitions=1, bytes=sum(sizes), batches=len(batches), records=len(records))


# --- explain ----------------------------------------------------------------------------------------------------------
def test_every_code_is_explained_once() -> None:
    ran = run("explain")
    rows = ran.of("explanation")
    assert len({(row["kind"], row["code"]) for row in rows}) == len(rows)
    assert {row["code"] for row in rows if row["kind"] == "finding"} == FINDING_TYPES.keys()
    summary(ran, files=0, **NOTHING_READ)


def test_lines_of_a_brokers_log(tmp_path: Path) -> None:
    line = "[2026-11-21 00:00:00,000] WARN {} (kafka.log.LogManager)\n"
    text = [
        line.format(said) for said in ("hello", "Shutdown broker because all log dirs in /kafka have failed", "bye")
    ]
    log = tmp_path / "server.log"
    log.write_text("".join(text * 3))
    ran = run("explain", "--log", log)
    (row,) = ran.of("broker_message")
    check(row, {"count": 3, "first_line": 2, "last_line": 8, "is_elsewhere": False})
    assert row["line"] == text[1].rstrip("\n")


def test_partitions_that_get_the_same_have_one_row(tmp_path: Path) -> None:
    """Else the damaged ones are not seen among those of a whole disk."""
    log = segments(DEMO / "orders-0")[0]
    for number in range(12):
        (tmp_path / f"t-{number}").mkdir()
        content = bytearray(log.read_bytes())
        if number == 4:
            content[100] ^= 0xFF  # in the records of the first batch
        (tmp_path / f"t-{number}" / log.name).write_bytes(content)
    shown = run("recover", "--only-copy", "--kafka", "4.3", tmp_path, output="table").text
    rows = [line.split("  ")[0] for line in shown.partition("partition  ")[2].splitlines()]
    assert rows[1:3] == ["t-4", "t-0 and 10 more"]
