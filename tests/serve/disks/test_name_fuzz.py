"""Links, reserved names and names that are taken, by a seed: what clients ask for changes their own topics alone.

Things are put where the directories of partitions are, or will be: links, directories with and without files, files.
Then a client creates, grows and deletes topics and produces to them, by those names and by names no topic may have.
After each request, nothing outside of the log directory has changed, nor has anything that was put there, and a request
that was refused has changed nothing. What was created is there after a restart.
"""

from __future__ import annotations

import os
import random
import shutil
import stat
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.errors import StorageError
from tests.support.live_state import NOW_MS, Clock, Live, batch_of, living

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

State = dict[str, tuple[object, ...]]
"""What is there, by its path; times are left out."""

CHOSEN: Final = 25
ALL: Final = 10 * int(os.environ.get("KAFKALOG_EXAMPLES", "25"))
"""Seeds of the slow test: 2,000 in the full run."""
REQUESTS: Final = 12
TOPICS: Final = ("orders", "keep", "new", "zz", "a.b", "a_b")
PARTITIONS: Final = ("orders-0", "orders-1", "keep-0")
OWN: Final = frozenset({"__consumer_offsets"})
"""Topics that clients may create, but only brokers write."""
NAMES: Final = (
    *TOPICS,
    *TOPICS,
    "__cluster_metadata",
    "__consumer_offsets",
    "kafkalog-undo-20260102T030405Z",
    "..",
    ".",
    "../outside",
    "orders-0",
    "/etc",
    "",
    "n" * 249,
    "n" * 250,
    "caf\u00e9",
)


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with two topics, which was stopped cleanly, and a directory outside of it."""
    place = tmp_path_factory.mktemp("pristine")
    (place / "log").mkdir()
    with living(place / "log") as live:
        live.create("orders", 2)
        live.create("keep")
        for name, number in (("orders", 0), ("orders", 1), ("keep", 0)):
            assert live.produce(name, batch_of(b"a", b"b"), number)["error_code"] == 0
    shutil.copytree(place / "log" / "orders-0", place / "outside" / "copy-0")
    (place / "outside" / "victim").write_bytes(b"of somebody else")
    return place


def state_of(root: Path) -> State:
    """Everything under a directory; links are not followed."""
    found: State = {}
    for around, directories, files in os.walk(root):
        for name in (*directories, *files):
            path = os.path.join(around, name)
            status = os.lstat(path)
            content: object = None
            if stat.S_ISLNK(status.st_mode):
                content = os.readlink(path)
            elif stat.S_ISREG(status.st_mode):
                with open(path, "rb") as file:
                    content = file.read()
            found[os.path.relpath(path, root)] = (status.st_mode, status.st_uid, status.st_gid, status.st_ino, content)
    return found


# --- what is in the way -----------------------------------------------------------------------------------------------
def put(root: Path, dice: random.Random) -> str:
    """Put something where a directory of a partition is, or will be; return its name."""
    outside = root.parent / "outside"
    name = f"{dice.choice((*TOPICS, '__consumer_offsets'))}-{dice.choice((0, 0, 1, 2))}"
    path = root / name
    if os.path.lexists(path) and not path.is_symlink():
        if path.is_dir() and dice.random() < 0.5:  # a link of a file within
            path = path / dice.choice(("leader-epoch-checkpoint", "partition.metadata", f"{2:020}.snapshot", "x.tmp"))
            path.unlink(missing_ok=True)
            path.symlink_to(outside / "victim")
            return str(path.relative_to(root))
        path.rename(outside / f"moved-{dice.random()}")
    if os.path.lexists(path):
        path.unlink()
    kinds: tuple[Callable[[], Any], ...] = (
        lambda: path.symlink_to(outside / "copy-0"),
        lambda: path.symlink_to(os.path.relpath(outside / "copy-0", root)),
        lambda: path.symlink_to(outside / "victim"),
        lambda: path.symlink_to(outside / "nowhere"),
        lambda: path.symlink_to("keep-0"),
        lambda: shutil.copytree(outside / "copy-0", path),
        lambda: (path / "below").mkdir(parents=True),
        lambda: path.write_bytes(b"a file"),
        lambda: os.mkfifo(path),
        path.mkdir,
    )
    dice.choice(kinds)()
    return name


# --- what clients ask for ---------------------------------------------------------------------------------------------
def request(live: Live, dice: random.Random) -> tuple[str, str, int]:
    """Ask for something; what, by which name, and the code of the error."""
    name, count = dice.choice(NAMES), dice.randint(1, 3)
    what = dice.choice(("create", "grow", "delete", "produce", "metadata"))
    if what == "create":
        code = live.create(name, count)["error_code"]
    elif what == "grow":
        topics = [{"name": name, "count": count, "assignments": None}]
        answer = live.ask("CreatePartitions", 2, topics=topics, timeout_ms=0, validate_only=False)
        code = answer["results"][0]["error_code"]
    elif what == "delete":
        code = live.ask("DeleteTopics", 4, topic_names=[name], timeout_ms=0)["responses"][0]["error_code"]
    elif what == "produce":
        code = live.produce(name, batch_of(b"x"), count - 1)["error_code"]
    else:
        answer = live.ask("Metadata", 7, topics=[{"name": name}], allow_auto_topic_creation=True)
        code = answer["topics"][0]["error_code"]
    return what, name, code


def check(place: Path, seed: int) -> None:
    """One seed."""
    dice, root, outside = random.Random(seed), place / "log", place / "outside"
    puts = {put(root, dice) for _ in range(dice.randint(1, 4))}
    kept, beyond = state_of(root), state_of(outside)
    mine = {
        name: row
        for name, row in kept.items()
        if any(name == each or name.startswith(f"{each}/") for each in puts)
        if name.partition("/")[0] not in PARTITIONS or (name in PARTITIONS and stat.S_ISLNK(int(str(row[0]))))
    }
    created: dict[str, int] = {}
    with living(root, Clock(NOW_MS + 1), "num.partitions=2") as live:  # at another time ids are others
        for _ in range(REQUESTS):
            before, topics = state_of(root), {name: topic.partition_count for name, topic in live.disks.topics.items()}
            what, name, code = request(live, dice)
            where = f"seed {seed}, {sorted(puts)}: {what} {name[:20]!r}: {code}"
            after = state_of(root)
            assert state_of(outside) == beyond, where
            found = live.disks.topics.get(name)
            is_created = found is not None and found.partition_count > topics.get(name, 0)
            if code != 0 and not (what == "metadata" and is_created):  # a broker answers before it is created, too
                assert {each for each, row in before.items() if after.get(each) != row} == set(), where
                new = {each.partition("/")[0] for each in after.keys() - before.keys()}  # a log that was opened
                assert new <= {f"{each}-{number}" for each in topics for number in range(topics[each])}, where
            elif what == "delete":
                gone = {each.partition("/")[0] for each in before.keys() - after.keys()}
                assert gone <= {f"{name}-{number}" for number in range(topics[name])}, where
                created.pop(name, None)
                mine = {each: row for each, row in mine.items() if each.partition("/")[0] not in gone}
            else:
                assert before.keys() <= after.keys(), where
                assert is_created or what not in {"create", "grow"}, where
                if found is not None and is_created:
                    created[name] = found.partition_count
            for each, row in mine.items():
                assert after.get(each) == row, f"{where}: {each}"
    assert state_of(outside) == beyond
    with living(root) as live:
        there = {name: topic.partition_count for name, topic in live.disks.topics.items()}
        assert created.items() <= there.items()
        places = [(name, min(live.disks.topics[name].copies)) for name in created.keys() - OWN]
        codes = {name: live.produce(name, batch_of(b"x"), number)["error_code"] for name, number in places}
        assert {*codes.values()} <= {0}, f"seed {seed}, {sorted(puts)}: {codes}; {live.failures}"
    assert state_of(outside) == beyond


def check_seeds(pristine: Path, place: Path, seeds: range) -> None:
    """Each seed with a copy of its own."""
    for seed in seeds:
        copy = place / str(seed)
        shutil.copytree(pristine, copy, symlinks=True)
        try:
            check(copy, seed)
        except StorageError as error:  # it does not start on such a directory
            raise AssertionError(f"seed {seed}: {error}") from error
        shutil.rmtree(copy)


def test_clients_change_their_topics_alone_by_chosen_seeds(pristine: Path, tmp_path: Path) -> None:
    check_seeds(pristine, tmp_path, range(CHOSEN))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(CHOSEN, CHOSEN + ALL, 50))
def test_clients_change_their_topics_alone(pristine: Path, tmp_path: Path, first: int) -> None:
    check_seeds(pristine, tmp_path, range(first, first + 50))
