"""What is left with a file that cannot be restored: what comes back is a log directory that agrees with itself."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.storage.changing.changes import Fingerprint
from kafkalog_core.storage.changing.derived import left_out
from kafkalog_core.storage.changing.journal import Journal, JournalEntry, JournalLayout
from kafkalog_core.storage.changing.trusted import TrustedDirectories

if TYPE_CHECKING:
    from pathlib import Path

PROBLEM = "its old content is damaged"
STARTS, CLEAN = "log-start-offset-checkpoint", ".kafka_cleanshutdown"
LOG = "belongs to a log that is left as it is"
GAP = "would be separated from the log by a segment that cannot be restored"
BELOW = f"a start would delete it again, as {STARTS} cannot be restored"
ALL = "belongs to the whole log directory, of which other files are left as they are"
SEGMENTS = "{0}.log {0}.index {0}.timeindex {1}.log {1}.index {2}.log {2}.index"
EPOCHS = "leader-epoch-checkpoint"


def named(path: str) -> str:
    """A path with its offsets in full."""
    return re.sub(r"\b\d+(?=\.)", lambda match: match[0].zfill(20), path)


def entry(number: int, word: str) -> JournalEntry:
    """`PATH`: removed; `+PATH`: created; `~PATH`: replaced; `-PATH`: cut; `PATH@BASE`: of a replacement."""
    kind, word = {"+": "create", "~": "replace", "-": "cut"}.get(word[0], "remove"), word.lstrip("+~-")
    path, _, base = word.partition("@")
    swap = int(base) if base else None
    before = None if kind == "create" else Fingerprint(8, 0, "")
    return JournalEntry(number=number, kind=kind, path=named(path), why="", before=before, after=None, swap=swap)  # type: ignore[arg-type]


def journal_of(root: Path, entries: tuple[JournalEntry, ...]) -> Journal:
    layout = JournalLayout(run="kafkalog-undo-20260102T030405Z-1", root=str(root), place="top", home=str(root))
    trusted = TrustedDirectories((str(root),))
    return Journal(
        layout=layout,
        command="",
        created_ms=0,
        state="complete",
        entries=entries,
        trusted=trusted,
        pointer_is_directory=False,
        keeps_old=True,
    )


def left(root: Path, there: str, changes: str, bad: str) -> dict[str, str]:
    """The files that are left, each with the reason.

    Args:
        root: the log directory.
        there: files that are there now.
        changes: those of the run, see `entry`; `t-0/` is left out.
        bad: those that cannot be restored.
    """

    def full(word: str) -> str:
        mark = word[0] if word[0] in "+~-" else ""
        path = word.removeprefix(mark)
        return mark + (path if "/" in path or path.endswith(("-offset-checkpoint", CLEAN)) else f"t-0/{path}")

    for word in there.split():
        (root / named(full(word))).parent.mkdir(exist_ok=True)
        (root / named(full(word))).touch()
    words = [full(word) for word in changes.split()]
    entries = tuple(entry(number, word) for number, word in enumerate(words, start=1))
    wanted = {named(full(word)) for word in bad.split()}
    problems = {each.number: f"{PROBLEM}: {each.path}" for each in entries if each.path in wanted}
    assert len(problems) == len(wanted)
    journal = journal_of(root, entries)
    paths = {each.number: each.path for each in entries}
    found = left_out(journal, problems)
    assert all(found[number] == text for number, text in problems.items()), "the reason of a damaged file is its own"
    return {re.sub(r"\b0+(?=\d)", "", paths[number]): text.partition(":")[0] for number, text in found.items()}


def of(reason: str, names: str) -> dict[str, str]:
    return {f"t-0/{name}": reason for name in names.split()}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "meta.properties").touch()
    (tmp_path / "t-0").mkdir()
    return tmp_path


def test_nothing_is_left_of_a_run_that_is_whole(root: Path) -> None:
    assert left(root, "30.log", f"0.log 0.index -30.log recovery-point-offset-checkpoint {STARTS} {CLEAN}", "") == {}


@pytest.mark.parametrize("change", ["-30.log", "~30.log", "+30.log"])
def test_a_log_that_is_left_keeps_every_file_of_its_partition(root: Path, change: str) -> None:
    others = f"30.index 20.snapshot {EPOCHS} 40.log 40.index"
    assert left(root, "30.log", f"{change} {others} t-1/5.log t-1/5.index", "30.log") == {
        **of(PROBLEM, "30.log"),
        **of(LOG, others),
    }


def test_an_index_of_a_log_that_is_cut_keeps_every_file_of_its_partition(root: Path) -> None:
    found = left(root, "30.log", f"-30.log 30.index 40.log {EPOCHS}", "30.index")
    assert found == {**of(PROBLEM, "30.index"), **of(LOG, f"30.log 40.log {EPOCHS}")}


def test_an_index_of_a_log_that_did_not_change_keeps_those_of_its_segment(root: Path) -> None:
    found = left(root, "0.log 5.log", "~0.index ~0.timeindex ~5.index 5.snapshot t-1/0.timeindex", "0.index")
    assert found == {**of(PROBLEM, "0.index"), **of(LOG, "0.timeindex")}
    found = left(root, "0.log 5.log", "~0.index ~5.timeindex ~5.index -9.log 9.index", "5.index 0.index")
    assert found == {**of(PROBLEM, "5.index 0.index"), **of(LOG, "5.timeindex")}


@pytest.mark.parametrize("changes", ["5.snapshot", "5.snapshot -30.log 40.log 40.snapshot", "5.snapshot 0.log"])
def test_a_snapshot_keeps_nothing_else(root: Path, changes: str) -> None:
    assert left(root, "30.log", f"{EPOCHS} {changes}", "5.snapshot") == of(PROBLEM, "5.snapshot")


def test_a_snapshot_and_an_index_each_keep_what_belongs_to_them(root: Path) -> None:
    found = left(root, "0.log", "5.snapshot ~0.index ~0.timeindex", "5.snapshot 0.index")
    assert found == {**of(PROBLEM, "5.snapshot 0.index"), **of(LOG, "0.timeindex")}


def test_leader_epochs_keep_a_log_that_changed_and_no_index_of_another(root: Path) -> None:
    assert left(root, "0.log", f"~{EPOCHS} ~0.index 5.snapshot", EPOCHS) == of(PROBLEM, EPOCHS)
    found = left(root, "0.log", f"~{EPOCHS} 40.log 40.index", EPOCHS)
    assert found == {**of(PROBLEM, EPOCHS), **of(LOG, "40.log 40.index")}


def test_a_file_that_no_start_makes_again_keeps_its_partition(root: Path) -> None:
    found = left(root, "0.log", "~partition.metadata ~0.index", "partition.metadata")
    assert found == {**of(PROBLEM, "partition.metadata"), **of(LOG, "0.index")}


@pytest.mark.parametrize("bad", ["0.log", "20.index", "30.index"])
def test_a_replacement_of_segments_is_left_whole(root: Path, bad: str) -> None:
    changes = "~0.log@0 0.index@0 20.log@0 20.index@0 10.snapshot@0 5.log ~30.index"
    found = left(root, "0.log 30.log", changes, bad)
    whole = {**of(LOG, changes.replace("~", "").replace("@0", "")), **of(PROBLEM, bad)}
    assert found == (of(PROBLEM, bad) if bad == "30.index" else whole)


def test_a_snapshot_of_a_replacement_keeps_it(root: Path) -> None:
    found = left(root, "0.log", "~0.log@0 10.snapshot@0", "10.snapshot")
    assert found == {**of(PROBLEM, "10.snapshot"), **of(LOG, "0.log")}


# --- segments that were deleted whole ---------------------------------------------------------------------------------
SNAPSHOTS = "9.snapshot 10.snapshot 11.snapshot 20.snapshot"


@pytest.mark.parametrize("bad", ["10.log", "10.index"])
def test_of_the_start_segments_after_the_last_damaged_one_come_back(root: Path, bad: str) -> None:
    changes = f"{SEGMENTS.format(0, 10, 20)} {SNAPSHOTS} {EPOCHS}"
    found = left(root, "30.log 40.log", changes, bad)
    gone = "0.log 0.index 0.timeindex 10.log 10.index 9.snapshot 10.snapshot"
    assert found == {**of(GAP, gone), **of(PROBLEM, bad)}


@pytest.mark.parametrize("bad", ["10.log", "10.index"])
def test_of_the_end_segments_before_the_first_damaged_one_come_back(root: Path, bad: str) -> None:
    changes = f"{SEGMENTS.format(5, 10, 20)} {SNAPSHOTS} {EPOCHS}"
    found = left(root, "0.log 3.log", changes, bad)
    gone = "10.log 10.index 20.log 20.index 10.snapshot 11.snapshot 20.snapshot"
    assert found == {**of(GAP, gone), **of(PROBLEM, bad)}


@pytest.mark.parametrize(("there", "is_start"), [("30.log", True), ("0.log", False)])
def test_of_several_damaged_ones_the_one_next_to_the_log_counts(root: Path, there: str, is_start: bool) -> None:
    changes = " ".join(f"{base}.log" for base in (5, 10, 15, 20))
    found = left(root, there, changes, "10.log 15.log")
    assert found == {**of(GAP, "5.log" if is_start else "20.log"), **of(PROBLEM, "10.log 15.log")}


@pytest.mark.parametrize("there", ["", "10.log", "0.log 30.log", "10.log 30.log", "0.log 10.log"])
def test_where_it_is_unknown_which_end_they_are_of_the_partition_is_left(root: Path, there: str) -> None:
    changes = f"5.log 10.log 20.log 1.snapshot {EPOCHS}"
    found = left(root, there, changes, "10.log")
    assert found == {**of(LOG, changes), **of(PROBLEM, "10.log")}


@pytest.mark.parametrize(("there", "bad"), [("30.log", "20.log"), ("0.log", "5.log")])
def test_where_no_log_comes_back_the_partition_is_left(root: Path, there: str, bad: str) -> None:
    changes = f"5.log 20.log 1.snapshot {EPOCHS} 50.snapshot"
    assert left(root, there, changes, bad) == {**of(LOG, changes), **of(PROBLEM, bad)}
    more = left(root, there, f"{changes} +{there}", bad)
    assert more == {**of(LOG, f"{changes} {there}"), **of(PROBLEM, bad)}, "a log that was made does not come back"


def test_a_log_that_is_cut_comes_back_without_the_segments_after_it(root: Path) -> None:
    found = left(root, "0.log 10.log", "-10.log ~10.index 20.log 30.log", "20.log")
    assert found == {**of(GAP, "30.log"), **of(PROBLEM, "20.log")}


@pytest.mark.parametrize("rest", ["~10.index", "+10.index", "10.index@10"])
def test_a_segment_that_is_not_deleted_whole_keeps_its_partition(root: Path, rest: str) -> None:
    found = left(root, "30.log", f"5.log 10.log {rest} 20.log", "10.log")
    assert found == {**of(LOG, "5.log 10.index 20.log"), **of(PROBLEM, "10.log")}


# --- at the top -------------------------------------------------------------------------------------------------------
TOP = "recovery-point-offset-checkpoint replication-offset-checkpoint"


def test_checkpoints_come_back_with_every_partition_and_log_start_offsets_always(root: Path) -> None:
    found = left(root, "0.log", f"{CLEAN} {STARTS} {TOP} ~0.index ~t-1/0.index", "0.index")
    assert found == {**of(PROBLEM, "0.index"), **dict.fromkeys(f"{CLEAN} {TOP}".split(), ALL)}


@pytest.mark.parametrize("first", [True, False])
def test_one_of_the_top_that_is_damaged_keeps_the_clean_shutdown_file_alone(root: Path, first: bool) -> None:
    names = [CLEAN, *TOP.split(), "cleaner-offset-checkpoint"]
    found = left(root, "0.log", " ".join(["~0.index", *(names if first else reversed(names))]), TOP.split()[1])
    assert found == {CLEAN: ALL, TOP.split()[1]: PROBLEM}


def test_a_clean_shutdown_file_that_is_damaged_keeps_nothing_else(root: Path) -> None:
    assert left(root, "0.log", f"{CLEAN} {TOP} {STARTS} 5.log", CLEAN) == {CLEAN: PROBLEM}


def test_where_the_old_log_start_offsets_are_damaged_no_deleted_segment_comes_back(root: Path) -> None:
    changes = f"5.log 5.index 5.snapshot {EPOCHS} ~0.index"
    others = "~t-1/0.log ~t-1/0.index t-1/5.index t-2/5.log t-2/8.log"
    found = left(root, "30.log", f"{changes} {others} {STARTS} {TOP}", f"{STARTS} t-2/8.log")
    assert found == {
        **of(BELOW, changes.replace("~", "")),
        "t-2/5.log": BELOW,
        "t-2/8.log": PROBLEM,
        STARTS: PROBLEM,
        **dict.fromkeys(TOP.split(), ALL),
    }


def test_a_partition_outside_of_a_log_directory_has_no_checkpoints_at_its_top(tmp_path: Path) -> None:
    """A file of the name of a checkpoint is one of the partition's there."""
    entries = (entry(1, "-0.log"), entry(2, "0.index"), entry(3, STARTS))
    assert left_out(journal_of(tmp_path, entries), {1: PROBLEM}) == {1: PROBLEM, 2: LOG, 3: LOG}
