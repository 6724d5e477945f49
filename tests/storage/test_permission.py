"""What keeps changes from being made is reported before the first write: rights, owners, and where a journal may be."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import NotFoundError
from kafkalog_core.storage.changing.changes import Change, ChangeKind, Fingerprint
from kafkalog_core.storage.changing.new_dir import new_dir_problem
from kafkalog_core.storage.changing.space import broker_dir_around, place_problem, write_problems
from tests.support.repairs import LOG, OWNER, make_dir

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

OTHER = (OWNER[0] + 1, OWNER[1] + 1)
INDEX = "00000000000000000000.index"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return make_dir(tmp_path / "log")


def change(path: Path, kind: ChangeKind = "replace") -> Change:
    before = None if kind == "create" else Fingerprint(1, 0, "")
    return Change(kind=kind, path=str(path), before=before, size_bytes=1, sha256=None, why="")


def become(monkeypatch: pytest.MonkeyPatch, uid: int, gid: int, groups: tuple[int, ...] = ()) -> None:
    """Let the system say that this process is another user's, who may write everywhere."""
    monkeypatch.setattr(os, "geteuid", lambda: uid)
    monkeypatch.setattr(os, "getegid", lambda: gid)
    monkeypatch.setattr(os, "getgroups", lambda: list(groups))
    monkeypatch.setattr(os, "access", lambda *_, **__: True)


def deny(monkeypatch: pytest.MonkeyPatch, is_denied: Callable[[str, int], object]) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode, **_: not is_denied(os.fspath(path), mode))


@pytest.mark.skipif(os.access not in os.supports_effective_ids, reason="the system checks the real user alone")
def test_the_effective_user_counts_who_is_the_one_that_writes(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda _, __, effective_ids=False: effective_ids)
    assert list(write_problems([change(root / "t-0" / LOG, "cut")])) == []
    assert place_problem(str(root.parent)) is None
    assert new_dir_problem(str(root.parent / "new")) is None


@pytest.mark.parametrize(
    ("uid", "gid", "groups", "is_fine"),
    [
        (OWNER[0], OWNER[1], (), True),
        (OWNER[0], OTHER[1], (OTHER[1], OWNER[1]), True),
        (OWNER[0], OTHER[1], (OTHER[1],), False),
        (OTHER[0], OWNER[1], (OWNER[1],), False),
        (OTHER[0], OTHER[1], (), False),
        (0, 0, (), True),
    ],
)
def test_only_the_owner_in_a_group_of_the_file_or_root_may_replace_it(
    root: Path, monkeypatch: pytest.MonkeyPatch, uid: int, gid: int, groups: tuple[int, ...], is_fine: bool
) -> None:
    """What is written in its place belongs to the user who writes it; a broker could not open it then."""
    path = root / "t-0" / LOG
    become(monkeypatch, uid, gid, groups)
    problem = (
        f"{path}: belongs to user {OWNER[0]}, group {OWNER[1]}, but a new file of this user would not "
        "(a broker that cannot open it takes the directory offline); run this as that user, or as root"
    )
    assert list(write_problems([change(path)])) == ([] if is_fine else [problem])


def test_a_new_file_gets_the_owner_of_its_directory_and_each_owner_is_named_once(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    partition = root / "t-0"
    become(monkeypatch, *OTHER)
    (created,) = write_problems([change(partition / "new", "create")])
    assert created.startswith(f"{partition}: belongs to user {OWNER[0]}, group {OWNER[1]}, ")
    files = [change(partition / LOG, "cut"), change(partition / INDEX), change(root / "t-1" / LOG, "remove")]
    (first,) = write_problems(files)
    assert first.startswith(f"{partition / LOG}: belongs to ")


@pytest.mark.parametrize("right", [os.W_OK, os.X_OK])
def test_each_directory_that_takes_no_new_files_is_named_once(
    root: Path, monkeypatch: pytest.MonkeyPatch, right: int
) -> None:
    become(monkeypatch, *OWNER)
    deny(monkeypatch, lambda path, mode: mode & right and os.path.isdir(path))
    files = [root / "t-0" / INDEX, root / "t-0" / LOG, root / "t-1" / LOG, root / "meta.properties"]
    assert list(write_problems(change(path) for path in files)) == [
        f"{directory}: no permission to create files in it; run this as its owner, or as root"
        for directory in (root / "t-0", root / "t-1", root)
    ]


def test_only_a_file_that_is_cut_has_to_be_writable(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log, index = root / "t-0" / LOG, root / "t-0" / INDEX
    become(monkeypatch, *OWNER)
    assert list(write_problems([change(log, "cut")])) == []
    deny(monkeypatch, lambda path, mode: mode & os.W_OK and os.path.isfile(path))
    assert list(write_problems([change(log, "cut"), change(index), change(root / "t-1" / LOG, "remove")])) == [
        f"{log}: no permission to truncate it; run this as its owner, or as root"
    ]


@pytest.mark.parametrize("is_read_only", [False, True])
def test_a_file_system_that_is_mounted_read_only_is_reported(
    root: Path, monkeypatch: pytest.MonkeyPatch, is_read_only: bool
) -> None:
    become(monkeypatch, *OWNER)
    flags = os.ST_RDONLY if is_read_only else os.ST_NOSUID
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=flags))
    problem = [f"{root / 't-0'}: its file system is mounted read-only"] if is_read_only else []
    assert list(write_problems([change(root / "t-0" / LOG)])) == problem


@pytest.mark.parametrize("gone", ["t-0", f"t-0/{LOG}"])
def test_what_has_gone_since_the_plan_was_made_is_an_error_that_names_it(root: Path, gone: str) -> None:
    (root / gone).rename(root.parent / "gone")
    with pytest.raises(NotFoundError, match="no such file or directory") as caught:
        list(write_problems([change(root / "t-0" / LOG)]))
    assert caught.value.path == str(root / gone)


# --- the directory of a journal ---------------------------------------------------------------------------------------
def problem_of(path: Path) -> str | None:
    return place_problem(str(path))


def make(directory: Path, *names: str) -> Path:
    directory.mkdir(parents=True)
    for name in names:
        (directory / name).touch()
    return directory


def test_a_journal_is_not_put_among_the_files_of_a_broker(root: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(root)
    alone = make(tmp_path / "alone-0", LOG)
    for place in (root, root / "t-0", root / "t-0" / "not" / "there", link / "undo", alone, alone / "undo"):
        assert problem_of(place) == (
            f"{place}: is in a broker's directory, where the journal is by default; name another directory"
        )
    assert broker_dir_around(f"{root}/not/there") == str(root)
    assert broker_dir_around(f"{alone}/not/there") == str(alone)


@pytest.mark.parametrize(("name", "files"), [("alone-0", ["notes.txt"]), ("copies", [LOG]), ("free", [])])
def test_a_directory_that_is_not_of_a_broker_takes_a_journal(tmp_path: Path, name: str, files: list[str]) -> None:
    """Neither the name of a partition alone makes one, nor logs in a directory of another name."""
    place = make(tmp_path / name, *files)
    assert [problem_of(place), problem_of(place / "not" / "there")] == [None, None]
    assert broker_dir_around(str(place)) is None


def test_a_journal_needs_a_directory_in_which_files_can_be_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    there = f"{tmp_path / 'file'}: is not a directory; name another"
    assert [problem_of(tmp_path / "file"), problem_of(tmp_path / "file" / "in")] == [there, there]
    deny(monkeypatch, lambda path, mode: mode & os.W_OK and path == str(tmp_path))
    closed = f"{tmp_path}: no permission to create files in it; run this as its owner, or as root"
    assert [problem_of(tmp_path), problem_of(tmp_path / "not" / "there")] == [closed, closed]
