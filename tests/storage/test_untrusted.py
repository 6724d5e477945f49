"""Journals that somebody else has written, or that are damaged: the right bytes or a refusal, and nothing else changed.

The attacker can write everything in the log directory, and knows how journals are sealed. What he must not get is a
change anywhere else, by any user who runs `kafkalog undo` there.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kafkalog_core.errors import FieldError, KafkalogError, RefusedError, UnfinishedError
from kafkalog_core.ops import planners
from kafkalog_core.ops.planners import make_plan
from kafkalog_core.ops.repair.apply import apply_plan, resume
from kafkalog_core.ops.repair.context import target_dir
from kafkalog_core.ops.repair.plan import PlanReport, PlanRequest
from kafkalog_core.ops.repair.undo import apply_prune, apply_undo, plan_prune, plan_undo, scope_of
from kafkalog_core.storage.changing import trusted as trusted_module
from kafkalog_core.storage.changing.changes import pieces
from kafkalog_core.storage.changing.journal import parse_journal
from kafkalog_core.storage.changing.journal_search import find_journals
from kafkalog_core.storage.changing.trusted import TrustedDirectories
from kafkalog_core.storage.changing.writer import Attributes, Disk
from tests.support.repairs import (
    LOG,
    NOW_MS,
    OWNER,
    CountingDisk,
    DyingDisk,
    FailingDisk,
    Killed,
    UnlinkingDisk,
    apply_to,
    interrupt,
    make_dir,
    names_of_ours,
    sealed,
    snapshot,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.storage.changing.journal import Journal

pytestmark = pytest.mark.usefixtures("no_waiting")

IS_ROOT = os.geteuid() == 0


@pytest.fixture(autouse=True)
def _planners(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(planners.PLANNERS, "reindex", "tests.support.repairs:plan")
    monkeypatch.setitem(planners.PLANNERS, "truncate", "tests.storage.test_untrusted:plan_small")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "log")


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """What nothing may happen to: a directory that looks like a log directory with a partition."""
    directory = make_dir(tmp_path / "outside")
    (directory / "target").write_text("of root")
    return directory


def plan_small(request: PlanRequest, stage: Any, progress: object) -> PlanReport:
    """Every way to keep old content, in few bytes."""
    del progress
    root = request.target.root
    log = f"{root}/t-0/{LOG}"
    stage.cut(log, 40, why="cut")
    stage.write(f"{root}/t-0/00000000000000000000.index", [b"new index"], why="replace", like=log)
    stage.remove(f"{root}/t-0/leader-epoch-checkpoint", why="remove")
    stage.write(f"{root}/recovery-point-offset-checkpoint", [b"0\n0\n"], why="top", like=f"{root}/meta.properties")
    return PlanReport()


def small(root: Path, disk: Disk) -> Journal:
    request = PlanRequest(target=target_dir([str(root)]), options={}, now_ms=NOW_MS)
    return apply_plan(make_plan("truncate", request), disk, now_ms=NOW_MS)


def forge(path: str, change: Callable[[dict[str, Any]], object]) -> None:
    """Change a journal and seal it again."""
    with open(path, "rb") as file:
        value = json.loads(file.read())
    change(value)
    with open(path, "wb") as file:
        file.write(sealed(value))


def undone(place: Path, *also: Path) -> bool:
    """Whether an undo, or where it was interrupted finishing it, did something; else it was refused."""
    try:
        scope = scope_of(str(place), [str(each) for each in also])
        for journal in scope.interrupted():
            if journal.state == "prepared":
                resume(journal, Disk())
                return True
        apply_undo(plan_undo(scope), Disk())
    except KafkalogError as error:
        return "\n" in str(error)
    return True


# --- damage -----------------------------------------------------------------------------------------------------------
def test_any_byte_of_a_journal(root: Path) -> None:
    """A flipped byte makes it unreadable, or it says the same as before."""
    journal = small(root, UnlinkingDisk())
    with open(journal.layout.intent, "rb") as file:
        text = file.read()
    home = journal.layout.home
    for position in range(len(text)):
        for mask in (0x01, 0x20, 0xFF):
            flipped = bytearray(text)
            flipped[position] ^= mask
            try:
                found = parse_journal(bytes(flipped), journal.run, home, "top")
            except FieldError:
                continue
            assert found == journal, position
    for size in range(len(text) - 1):
        with pytest.raises(FieldError):
            parse_journal(text[:size], journal.run, home, "top")


def test_any_byte_of_what_was_saved(root: Path) -> None:
    old = snapshot(root)
    journal = small(root, UnlinkingDisk())
    now = snapshot(root)
    saved = sorted((root / "t-0" / journal.run).glob("*-0*"))
    assert {path.name.partition("-")[0] for path in saved} == {"old", "tail"}
    times = {path: path.stat().st_mtime_ns for path in saved}
    for path in saved:
        content = path.read_bytes()
        for position in range(0, len(content), 1 if len(content) < 1000 else 487):
            path.write_bytes(content[:position] + bytes([content[position] ^ 0xFF]) + content[position + 1 :])
            assert not undone(root), (path.name, position)
        for size in (0, len(content) - 1, len(content) + 1):
            path.write_bytes((content + b"\0")[:size])
            assert not undone(root), (path.name, size)
        path.write_bytes(content)
        os.utime(path, ns=(times[path], times[path]))
        assert snapshot(root) == now
    assert undone(root)
    assert snapshot(root) == old


def test_what_is_kept_inside_is_compared_with_its_hash(root: Path) -> None:
    small(root, Disk())
    (intent,) = root.glob("kafkalog-undo-*")
    now = snapshot(root)
    with open(intent, "rb") as file:
        whole = file.read()
    inline = next(entry["inline"] for entry in json.loads(whole)["entries"] if entry["inline"])
    content = base64.b64decode(inline)
    for position in range(len(content)):
        wrong = content[:position] + bytes([content[position] ^ 1]) + content[position + 1 :]

        def change(value: dict[str, Any], wrong: bytes = wrong) -> None:
            for entry in value["entries"]:
                if entry["inline"]:
                    entry["inline"] = base64.b64encode(wrong).decode()

        forge(str(intent), change)
        assert not undone(root)
    assert snapshot(root) == now


# --- journals of an attacker ------------------------------------------------------------------------------------------
def put(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(journal: dict[str, Any]) -> None:
        journal[name] = value

    return change


def put_in_entry(name: str, value: object) -> Callable[[dict[str, Any]], None]:
    def change(journal: dict[str, Any]) -> None:
        for entry in journal["entries"]:
            entry[name] = value

    return change


PATHS = [
    "/etc/passwd",
    "../outside/target",
    "t-0/../../outside/target",
    "a/b/c",
    "",
    ".",
    "..",
    "x\0y",
    "\ud800",
    "t-0//x",
]
PATHS += ["kafkalog-undo-20260102T030405Z-9", "x" * 5000, "t-0/", "/", "//x"]
WRONG = [put_in_entry("path", path) for path in PATHS]
VALUES = [float("inf"), float("nan"), -1, 10**400, None, [], {}, "\0", "\ud800", True, 1.5]
TOP = ("created_ms", "state", "root", "entries", "command", "run", "version")
INNER = ("number", "kind", "before", "after", "had", "saved", "inline", "swap")
WRONG += [put(name, value) for name in TOP for value in VALUES if (name, value) != ("root", None)]
WRONG += [put_in_entry(name, value) for name in INNER for value in VALUES if value is not None]
WRONG += [put("elsewhere", value) for value in ("x\0y", "\ud800", "relative", "/", "/a/../b", 1, None, float("inf"))]


@pytest.mark.slow
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_a_journal_that_is_garbage_is_refused_in_one_sentence(root: Path, outside: Path, number: int) -> None:
    journal = apply_to(root, Disk())  # in t-0
    forge(journal.layout.intent, WRONG[number])
    seen, other = snapshot(root), snapshot(outside)
    assert not undone(root)
    (remains,) = scope_of(str(root)).found.remains
    assert "\n" not in remains.reason
    assert len(remains.reason) < 1000
    assert snapshot(root) == seen
    assert snapshot(outside) == other
    request = PlanRequest(target=target_dir([str(root)]), options={"is_wide": True, "seed": 2}, now_ms=NOW_MS)
    (obstacle,) = map(str, make_plan("reindex", request).plan.obstacles)
    assert f"kafkalog undo {root} --prune --run {journal.run} --apply" in obstacle
    apply_prune(plan_prune(scope_of(str(root)), journal.run), Disk())
    assert names_of_ours(root) == []
    assert snapshot(outside) == other


def _in_entry(number: int, **members: object) -> Callable[[dict[str, Any]], None]:
    return lambda journal: journal["entries"][number].update(members)


def _without(number: int, name: str) -> Callable[[dict[str, Any]], None]:
    return lambda journal: journal["entries"][number].update({name: None})


CUT, REPLACED, REMOVED, TOP_FILE = range(4)
LONGER = {"size_bytes": 10**6, "mtime_ns": 0, "sha256": "0" * 64}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_without(CUT, "after"), "is not a valid cut"),
        (_in_entry(REMOVED, kind="replace"), "is not a valid replace"),
        (_in_entry(CUT, after=LONGER), "is a truncation that makes a file longer"),
        (_without(REPLACED, "new_sha256"), "is to write a file and lacks its hash"),
        (_without(REPLACED, "has"), "is to write a file and lacks its owner"),
        (_without(CUT, "had"), "lacks the owner of the file that was there"),
        (_in_entry(REMOVED, inline="AA=="), "has old content where none is saved"),
        (_in_entry(CUT, saved_sha256=None), "lacks the hash of what is saved"),
        (_in_entry(REMOVED, saved="tail", saved_sha256="0" * 64), "has saved a tail of what is not cut"),
        (
            lambda journal: journal["entries"][CUT]["had"].update(extended={"a\0b": ""}),
            "the name of an extended attribute",
        ),
    ],
)
def test_a_journal_that_contradicts_itself(root: Path, change: Callable[[dict[str, Any]], None], said: str) -> None:
    journal = small(root, Disk())
    kinds = [entry.kind for entry in journal.entries]
    order = [kinds.index(kind) for kind in ("cut", "replace", "remove")]

    def sorted_change(value: dict[str, Any]) -> None:
        entries = value["entries"]
        value["entries"] = [entries[number] for number in order]
        change(value)
        value["entries"] = entries

    forge(journal.layout.intent, sorted_change)
    now = snapshot(root)
    assert not undone(root)
    (remains,) = scope_of(str(root)).found.remains
    assert said in remains.reason
    assert snapshot(root) == now


def test_a_run_that_is_complete_cannot_be_resumed(root: Path) -> None:
    journal = small(root, Disk())
    with pytest.raises(RefusedError, match=rf"is complete and cannot be resumed. .*kafkalog undo {root} --list"):
        resume(journal, Disk())


def test_what_is_cut_or_extended_has_no_other_name_and_is_a_file(root: Path, outside: Path) -> None:
    log, fifo = root / "t-0" / LOG, root / "t-0" / "fifo"
    os.link(log, outside / "backup")
    os.mkfifo(fifo)
    kept = os.open(fifo, os.O_RDWR)  # so that opening it does not wait
    for change in (lambda path: Disk().cut(path, 1, 0), lambda path: Disk().extend(path, 1, [b"x"], 0)):
        with pytest.raises(RefusedError, match=r"has another hard link, which would be changed with it.* cp -p "):
            change(str(log))
        with pytest.raises(RefusedError, match="is not a regular file"):
            change(str(fifo))
    os.close(kept)
    assert (outside / "backup").read_bytes() == log.read_bytes()


def test_a_directory_that_is_another_one_a_moment_later(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trusted_module, "_KEPT_OPEN", 1)
    (root / "t-1").mkdir(exist_ok=True)
    trusted = TrustedDirectories([str(root)])
    assert trusted.status(f"{root}/t-0/{LOG}") is not None
    trusted.status(f"{root}/t-1/{LOG}")  # closes the other one
    trusted.status(f"{root}/meta.properties")
    (root / "t-0").rename(root / "gone")
    shutil.copytree(root / "gone", root / "t-0")
    with pytest.raises(RefusedError, match="has just been replaced by another directory"):
        trusted.status(f"{root}/t-0/{LOG}")


def test_garbage_in_one_partition_does_not_keep_others_from_being_mended(root: Path) -> None:
    journal = apply_to(root, Disk())
    with open(journal.layout.intent, "wb") as file:
        file.write(b"garbage")
    (root / "t-0").rename(root / "t-7")
    shutil.copytree(root / "t-7", root / "t-0")
    shutil.rmtree(root / "t-0" / journal.run)
    request = PlanRequest(target=target_dir([str(root / "t-0")]), options={}, now_ms=NOW_MS)
    assert make_plan("truncate", request).plan.obstacles == ()
    request = PlanRequest(target=target_dir([str(root)]), options={}, now_ms=NOW_MS)
    (obstacle,) = map(str, make_plan("truncate", request).plan.obstacles)
    assert "t-7" in obstacle


def test_a_root_that_only_the_journal_names(root: Path, outside: Path) -> None:
    """The reproducer: root's undo overwrites, deletes and creates files there."""
    twin = make_dir(root.parent / "twin")
    (root.parent / "undo").mkdir()
    journal = apply_to(twin, Disk(), undo_to=root.parent / "undo", is_wide=True)
    with open(journal.layout.intent, "rb") as file:
        value = json.loads(file.read())
    seen = snapshot(outside)
    for place in (root / "t-0", root):
        forged = place / journal.run
        if place == root:
            forged.write_bytes(sealed(value | {"root": str(outside)}))
        else:
            shutil.copytree(root.parent / "undo" / journal.run, forged)
            (forged / "intent.json").write_bytes(sealed(value | {"root": str(outside)}))
        assert not undone(root)
        obstacle = str(plan_undo(scope_of(str(root)), journal.run).obstacles[0])
        assert f"changed files in {outside}, which you did not name" in obstacle
        shutil.rmtree(forged) if forged.is_dir() else forged.unlink()
    assert snapshot(outside) == seen


def test_a_run_that_only_the_journal_leads_to_is_not_finished_either(root: Path, outside: Path) -> None:
    interrupt(root, is_wide=True)
    (journal,) = scope_of(str(root)).interrupted()
    forge(journal.layout.intent, put("root", str(outside)))
    seen = snapshot(outside)
    (journal,) = scope_of(str(root)).interrupted()
    with pytest.raises(
        RefusedError, match=rf"changed files in {outside}, which you did not name.* name all directories"
    ):
        resume(journal, Disk())
    assert snapshot(outside) == seen


@pytest.mark.parametrize("step", [0, 3])
def test_an_undo_that_fails_says_how_to_go_on(root: Path, step: int) -> None:
    old = snapshot(root)
    journal = small(root, Disk())
    with pytest.raises(
        UnfinishedError, match=r"The undo is not finished\. .*, run it again: kafkalog undo .*"
    ) as caught:
        apply_undo(plan_undo(scope_of(str(root))), FailingDisk(step, errno.EIO, forever=True))
    assert f"kafkalog undo {root}" in str(caught.value)
    assert journal.run in str(caught.value)
    apply_undo(plan_undo(scope_of(str(root))), Disk())
    assert snapshot(root) == old


def test_a_link_to_a_directory_in_the_way(root: Path, outside: Path) -> None:
    """The other reproducer: the same, through `link-0/target`."""
    journal = apply_to(root, Disk(), is_wide=True)
    (root / "link-0").symlink_to(outside)
    seen = snapshot(outside)

    def change(value: dict[str, Any]) -> None:
        status, digest = os.stat(outside / "target"), hashlib.sha256(b"of root").hexdigest()
        after = {"size_bytes": 7, "mtime_ns": status.st_mtime_ns, "sha256": digest}
        for entry in value["entries"]:
            if entry["path"] == "log-start-offset-checkpoint":
                entry |= {"path": "link-0/target", "after": after}

    forge(journal.layout.intent, change)
    assert not undone(root)
    assert "link-0 is a symbolic link to" in str(plan_undo(scope_of(str(root))).obstacles[0])
    kept = plan_prune(scope_of(str(root)))
    apply_prune(kept, Disk())
    assert snapshot(outside) == seen


@pytest.mark.parametrize("where", ["run", "intent", "saved", "staged"])
@pytest.mark.parametrize("kind", ["link", "fifo", "directory", "dangling"])
def test_other_things_in_place_of_the_journals_own_files(root: Path, outside: Path, where: str, kind: str) -> None:
    if where == "staged":
        interrupt(root)
    else:
        apply_to(root, UnlinkingDisk())
    (run,) = (root / "t-0").glob("kafkalog-undo-*")
    pattern = {"run": None, "intent": "intent.json", "saved": "old-*", "staged": "new-*"}[where]
    path = run if pattern is None else min(run.glob(pattern))
    path.rename(outside / "moved")
    make = {
        "link": lambda: path.symlink_to(outside / "moved"),
        "dangling": lambda: path.symlink_to(outside / "nowhere"),
        "fifo": lambda: os.mkfifo(path),
        "directory": path.mkdir,
    }
    make[kind]()
    seen, now = snapshot(outside), snapshot(root)
    assert not undone(root)
    assert snapshot(outside) == seen
    assert snapshot(root) == now or where == "staged"


@pytest.mark.parametrize("state", ["undo", "apply"])
def test_a_directory_that_becomes_a_link_between_any_two_steps(tmp_path: Path, outside: Path, state: str) -> None:
    """Whatever was checked: what is changed is what was checked, and not what has its name by then."""
    counting = CountingDisk()
    seen = snapshot(outside)
    patient = make_dir(tmp_path / "count")
    if state == "apply":
        apply_to(patient, counting, is_wide=True)
    else:
        apply_to(patient, Disk(), is_wide=True)
        apply_undo(plan_undo(scope_of(str(patient))), counting)
    for at in range(0, len(counting.steps), 3):
        root = make_dir(tmp_path / f"{at}")

        class Swapping(Disk):
            def __init__(self, root: Path, left: int) -> None:
                self.root, self.left = root, left

            def step(self, what: str, path: str) -> None:
                del what, path
                self.left -= 1
                if self.left == -1:
                    (self.root / "t-0").rename(self.root / "away-0")
                    (self.root / "t-0").symlink_to(outside / "t-0")

        try:
            if state == "apply":
                apply_to(root, Swapping(root, at), is_wide=True)
            else:
                apply_to(root, Disk(), is_wide=True)
                apply_undo(plan_undo(scope_of(str(root))), Swapping(root, at))
        except KafkalogError:
            pass
        assert snapshot(outside) == seen, at
        assert names_of_ours(outside) == [], at
        shutil.rmtree(root)


def test_what_is_read_is_of_the_directory_that_was_checked(tmp_path: Path, outside: Path) -> None:
    """A directory that somebody replaces by a link afterwards leads nowhere else."""
    place = tmp_path / "named" / "t-0"
    place.mkdir(parents=True)
    (place / "file").write_bytes(b"mine")
    (outside / "file").write_bytes(b"theirs")
    trusted = TrustedDirectories([str(tmp_path / "named")])
    assert trusted.exists(f"{place}/file")
    place.rename(tmp_path / "moved")
    place.symlink_to(outside)
    assert b"".join(bytes(piece) for piece in pieces(f"{place}/file", trusted=trusted)) == b"mine"
    with pytest.raises(RefusedError):
        next(pieces(f"{place}/file", trusted=TrustedDirectories([str(tmp_path / "named")])))


def test_a_name_that_the_system_refuses_is_no_missing_file(tmp_path: Path) -> None:
    with pytest.raises(KafkalogError, match="too long"):
        TrustedDirectories([str(tmp_path)]).status(f"{tmp_path}/{'x' * 300}")


def test_a_directory_that_this_process_makes_again_is_no_other_one(tmp_path: Path) -> None:
    disk, place, own = Disk(), tmp_path / "t-0", Attributes.of(str(tmp_path))
    with disk.within(TrustedDirectories([str(tmp_path)])):
        for content in (b"one", b"two"):
            disk.make_directory(str(place), own)
            (tmp_path / "in-between").mkdir(exist_ok=True)
            disk.write_file(f"{place}/file", [content], None, None)
            assert (place / "file").read_bytes() == content
            disk.unlink(f"{place}/file")
            disk.remove_directory(str(place))
    assert not place.exists()


@pytest.mark.skipif(not IS_ROOT, reason="only root can give files away")
@pytest.mark.parametrize(
    "had",
    [
        *({"uid": 0, "gid": 0}, {"uid": 4711}, {"uid": -1}, {"mode": "4755"}, {"mode": "2755"}, {"mode": "7777"}),
        {"extended": {"security.capability": "AQAAAgAgAAAAAAAAAAAAAAAAAAA="}},
        {"extended": {"trusted.x": "AA=="}},
    ],
)
def test_owners_and_permissions_that_no_file_there_has(root: Path, had: dict[str, Any]) -> None:
    journal = small(root, UnlinkingDisk())

    def change(value: dict[str, Any]) -> None:
        for entry in value["entries"]:
            if entry["had"]:
                entry["had"] |= had

    forge(journal.layout.intent, change)
    now = snapshot(root)
    assert not undone(root)
    assert snapshot(root) == now
    assert OWNER != (0, 0)


def test_a_file_that_got_another_name_is_not_changed_under_it(root: Path, outside: Path) -> None:
    """A backup of hard links that was made after the run is not changed."""
    old = snapshot(root)
    apply_to(root, Disk())
    os.link(root / "t-0" / LOG, outside / "backup")
    kept = (outside / "backup").read_bytes()
    assert undone(root)
    assert snapshot(root) == old
    assert (outside / "backup").read_bytes() == kept


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.sampled_from(PATHS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_anything_at_any_place_of_a_journal(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    place = Path(mkdtemp(dir=tmp_path_factory.getbasetemp()))
    root, outside = make_dir(place / "log"), make_dir(place / "outside")
    seen = snapshot(outside)
    journal = apply_to(root, Disk(), is_wide=True)
    with open(journal.layout.intent, "rb") as file:
        value = json.loads(file.read())
    *way, last = data.draw(st.sampled_from([each for each in places(value) if each]))
    target = value
    for key in way:
        target = target[key]
    target[last] = data.draw(JSON)
    with open(journal.layout.intent, "wb") as file:
        file.write(sealed(value))
    undone(root)
    for found in find_journals(str(root)).remains:
        assert "\n" not in found.reason
    with suppress(KafkalogError):
        apply_prune(plan_prune(scope_of(str(root)), journal.run), Disk())
    assert snapshot(outside) == seen
    shutil.rmtree(place)


@pytest.mark.parametrize(
    "text", [b'{"a":1,"a":2}', b"[" * 100_000, b'{"a":' * 50_000, b'{"x":1e999}', b'"x"', b"\xff\xfe"]
)
def test_what_is_no_object(root: Path, text: bytes) -> None:
    journal = apply_to(root, Disk())
    with open(journal.layout.intent, "wb") as file:
        file.write(text)
    assert not undone(root)
    with pytest.raises(RefusedError, match="nothing has been changed"):
        apply_to(root, Disk(), seed=2)


def test_what_a_killed_run_left_elsewhere_is_freed_from_the_log_directory(tmp_path: Path) -> None:
    """Staged files of gigabytes may be in the directory that --undo-to named, and the run never began."""
    elsewhere = tmp_path / "undo"
    elsewhere.mkdir()
    counting = CountingDisk()
    apply_to(make_dir(tmp_path / "count"), counting, undo_to=elsewhere, is_wide=True)
    shutil.rmtree(elsewhere)
    found = 0
    for at in range(0, len(counting.steps), 11):
        elsewhere.mkdir()
        root = make_dir(tmp_path / f"{at}")
        with suppress(Killed):
            apply_to(root, DyingDisk(at), undo_to=elsewhere, is_wide=True)
        scope = scope_of(str(root))
        if scope.found.journals:
            apply_undo(plan_undo(scope), Disk())
        found += len(scope.found.remains)
        apply_prune(plan_prune(scope_of(str(root))), Disk())
        assert names_of_ours(root) == [], at
        assert [path for path in elsewhere.rglob("*") if path.is_file()] == [], at
        shutil.rmtree(elsewhere)
        shutil.rmtree(root)
    assert found > 2


@pytest.mark.parametrize("is_named", [False, True])
def test_what_others_may_have_left_elsewhere_is_freed_only_where_it_is_named(tmp_path: Path, is_named: bool) -> None:
    """A pointer in a log directory must not make root delete what it leads to."""
    elsewhere = tmp_path / "undo"
    elsewhere.mkdir()
    counting = CountingDisk()
    apply_to(make_dir(tmp_path / "count"), counting, undo_to=elsewhere)
    for at in range(5, len(counting.steps)):
        shutil.rmtree(elsewhere)
        elsewhere.mkdir()
        root = make_dir(tmp_path / f"{at}")
        with suppress(Killed):
            apply_to(root, DyingDisk(at), undo_to=elsewhere)
        left = [path for path in elsewhere.rglob("*") if path.is_file()]
        if left and scope_of(str(root)).found.remains:
            break
    (run,) = elsewhere.iterdir()
    run.chmod(0o777)
    apply_prune(plan_prune(scope_of(str(root), [str(elsewhere)] if is_named else [])), Disk())
    assert [path for path in elsewhere.rglob("*") if path.is_file()] == ([] if is_named else left)
