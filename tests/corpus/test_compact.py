"""What real cleaners of every release made of a log is what `compact --apply` makes of it.

Each pass of a cleaner in the corpus is a test: the log as it was found is laid out, cleaned, and compared file by file
with what the broker left. Of what differs every file is in `compact_differences.txt`, with the reason, and so do
the passes that cannot be compared. A line that nothing needs any more fails.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.compact.compact import compact
from kafkalog_core.ops.compact.forecast import CompactRequest
from kafkalog_core.ops.compact.new_log_dir import compact_to
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanRequest
from kafkalog_core.storage.changing import writer
from kafkalog_core.storage.changing.writer import Disk
from tests.corpus import batch_bytes, cleaning, verifying
from tests.corpus.histories import KINDS
from tests.support.corpus import archives

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.corpus.cleaning import Pair

    CarryOut = Callable[[Pair, Path, Path, Path], Path]

pytestmark = pytest.mark.corpus

PAIRS = cleaning.pairs()
LINES = verifying.lines("compact_differences.txt", 4)
_ENDINGS = tuple(f".{kind}" for kind in KINDS)
_FORMS = {"index": ">ii", "timeindex": ">qi"}


def _explains(line: tuple[str, ...], pair: Pair, file: str, how: str) -> bool:
    return all(map(verifying.is_like, (pair.id, file, how), line))


@pytest.fixture(autouse=True)
def _without_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "_sync", lambda number: None)


def _memory_bytes(pair: Pair) -> int:
    config = pair.stay.config
    return int(config["log.cleaner.dedupe.buffer.size"]) // int(config.get("log.cleaner.threads", 1))


def _in_place(pair: Pair, corpus: Path, root: Path, into: Path) -> Path:
    """Clean a laid out log as the broker did; where the result is."""
    options = {"kafka": pair.stay.options(into, pair.topic), "memory_bytes": _memory_bytes(pair), "force": False}
    request = PlanRequest(target=target_dir([str(root)]), options=options, now_ms=pair.now_ms(corpus))
    draft = make_plan("compact", request)
    assert draft.plan.changes, [each.message for each in (*draft.plan.report.refusals, *draft.plan.report.findings)]
    apply_plan(draft, Disk(), now_ms=request.now_ms)
    return root


def _to_new_dir(pair: Pair, corpus: Path, root: Path, into: Path) -> Path:
    """The same, into a new log directory."""
    [forecast] = compact_to(_request(pair, corpus, root, into), str(into / "new"), Report())
    assert forecast.passes
    return into / "new"


def _request(pair: Pair, corpus: Path, root: Path, into: Path) -> CompactRequest:
    return CompactRequest(
        targets=tuple(resolve([str(root)])),
        now_ms=pair.now_ms(corpus),
        kafka=SettingsRequest.from_json(pair.stay.options(into, pair.topic)),
        memory_bytes=_memory_bytes(pair),
        max_passes=1,
    )


def differences(pair: Pair, corpus: Path, tmp_path: Path, carry_out: CarryOut) -> Iterator[tuple[str, str]]:
    """What is other in what we make of a log: file and how."""
    if pair.lost:
        yield "-", "lost"
        return
    root = pair.lay(corpus, tmp_path / "log")
    untouched = {path.name: path.read_bytes() for path in (root / pair.logged.partition).glob(_active(pair))}
    root = carry_out(pair, corpus, root, tmp_path)
    directory = root / pair.logged.partition
    for name, content in untouched.items():
        if (directory / name).read_bytes() != content:
            yield name, "above the bound"
    yield from _segments(pair, corpus, directory)
    yield from _beside(pair, corpus, root)


def _active(pair: Pair) -> str:
    """The files of the segment that begins where the pass ends, but its snapshot."""
    return f"{pair.logged.end:020d}.[lit]*"


def _segments(pair: Pair, corpus: Path, directory: Path) -> Iterator[tuple[str, str]]:
    theirs = {name: corpus / path for name, path in pair.made.items()}
    seen = {name.partition(".")[0] for name in theirs}
    mine = {path.name: path for path in directory.iterdir() if path.name.endswith(_ENDINGS)}
    for base in sorted(pair.gone):
        yield from ((name, "not gone") for name in mine if name.startswith(f"{base:020d}."))
    for name in sorted(theirs.keys() | {name for name in mine if name.partition(".")[0] in seen}):
        if name not in theirs:
            yield name, "extra"
        elif name not in mine:
            yield name, "missing"
        elif how := _other(name, mine, theirs) or _dated(pair, name, mine[name]):
            yield name, how


def _other(name: str, mine: dict[str, Path], theirs: dict[str, Path]) -> str | None:
    stem, _, kind = name.partition(".")
    one, other = mine[name].read_bytes(), theirs[name].read_bytes()
    if kind == "log":
        return batch_bytes.difference(one, other)
    if one == other:
        return None
    logs = mine[f"{stem}.log"].read_bytes(), theirs[f"{stem}.log"].read_bytes()
    if logs[0] == logs[1] or kind not in _FORMS:
        return f"{one.hex()} not {other.hex()}"
    entries = [batch_bytes.entries(index, _FORMS[kind], log) for index, log in zip((one, other), logs, strict=True)]
    return batch_bytes.SAME_RECORDS if entries[0] == entries[1] else f"{entries[0]} not {entries[1]}"


def _dated(pair: Pair, name: str, path: Path) -> str | None:
    if not name.endswith(".log"):
        return None
    swap = next(each for each in pair.logged.swaps if each.base == int(name[:20]))
    theirs = pair.stay.mtimes.get(pair.made[name], swap.mtime_ms)
    mine = path.stat().st_mtime_ns // 1_000_000
    return None if theirs in {None, mine} else f"dated {mine}, not {theirs}"


def _beside(pair: Pair, corpus: Path, root: Path) -> Iterator[tuple[str, str]]:
    """The checkpoint and, where nothing else was done before the copy, the snapshots of what was cleaned."""
    lines = (root / "cleaner-offset-checkpoint").read_text().splitlines()[2:]
    topic, _, number = pair.logged.partition.rpartition("-")
    if f"{topic} {number} {pair.logged.end}" not in lines:
        yield "cleaner-offset-checkpoint", f"{lines}, not {pair.logged.end}"
    if pair.stay.wrote or not pair.is_last:
        return
    bases = {f"{base:020d}.snapshot" for swap in pair.logged.swaps for base in swap.sources}
    found = [
        {path.name for path in directory.glob("*.snapshot")} & bases
        for directory in (root / pair.logged.partition, corpus / pair.stay.after / pair.logged.partition)
    ]
    if found[0] != found[1]:
        yield "*.snapshot", f"extra {sorted(found[0] - found[1])}, missing {sorted(found[1] - found[0])}"


@pytest.mark.parametrize("carry_out", [_in_place, _to_new_dir], ids=["in-place", "to"])
@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.id)
def test_a_pass_makes_what_the_cleaner_made(corpus: Path, tmp_path: Path, pair: Pair, carry_out: CarryOut) -> None:
    """And every line of the list that names the pass is needed for it."""
    found = list(differences(pair, corpus, tmp_path, carry_out))
    left = [each for each in found if not any(_explains(line, pair, *each) for line in LINES)]
    assert not left, "\n".join(f"{pair.id}  {file}  {how}" for file, how in left)
    named = [line for line in LINES if verifying.is_like(pair.id, line[0])]
    idle = [line for line in named if not any(_explains(line, pair, *each) for each in found)]
    assert not idle, f"nothing of this pass is as these lines say: {idle}"


@pytest.mark.parametrize("pair", [pair for pair in PAIRS if not pair.lost], ids=lambda pair: pair.id)
def test_the_simulation_tells_what_the_cleaner_made(corpus: Path, tmp_path: Path, pair: Pair) -> None:
    root = pair.lay(corpus, tmp_path / "log")
    [forecast] = compact(_request(pair, corpus, root, tmp_path), Report())
    [told] = forecast.passes
    assert forecast.partition["would_run"] is True
    assert (told["first_dirty_offset"], told["end_offset"]) == (pair.logged.first_dirty, pair.logged.end)
    assert told["groups"] == len(pair.logged.swaps)
    logs = [(corpus / path).read_bytes() for name, path in pair.made.items() if name.endswith(".log")]
    if len(logs) < len(pair.logged.swaps):
        return
    batches = [batch for log in logs for batch in batch_bytes.batches(log)]
    assert told["batches_after"] == len(batches)
    assert told["records_after"] == sum(batch.records for batch in batches)
    if not any(batch.is_compressed for batch in batches):
        assert told["bytes_after"] == sum(map(len, logs))


def test_every_line_of_the_list_is_of_a_pass() -> None:
    stale = [line for line in LINES if not any(verifying.is_like(pair.id, line[0]) for pair in PAIRS)]
    assert not stale or not archives.is_whole(), "a part of the corpus may leave lines unused, the whole may not"


def test_passes_of_the_corpus_are_found() -> None:
    """An empty list of passes would be green too."""
    assert {pair.stay.release for pair in PAIRS} >= {"0.10.2.2", "2.8.2", "3.9.1", "4.3.1"}
    assert len(PAIRS) >= (177 if archives.is_whole() else 82)
