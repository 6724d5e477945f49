"""A journal as a file: its bytes, and the least and the most that each member may be."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.errors import FieldError
from kafkalog_core.storage.changing.changes import Fingerprint
from kafkalog_core.storage.changing.journal import (
    Journal,
    JournalEntry,
    JournalLayout,
    parse_journal,
    write_beginning,
    write_intent,
    write_pointer,
)
from kafkalog_core.storage.changing.writer import Attributes, Disk
from kafkalog_core.structs import replace
from tests.support.repairs import sealed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

RUN: Final = "kafkalog-undo-20260102T030405Z-1"
OWNED: Final = Attributes(uid=1001, gid=1002, mode=0o640, extended={"user.note": b"of the broker"})
OURS: Final = Attributes(uid=os.geteuid(), gid=os.getegid(), mode=0o600)
JOURNAL: Final = Journal(
    layout=JournalLayout(run=RUN, root="/log", place="top", home="/log"),
    command="truncate",
    created_ms=1_767_323_045_000,
    state="complete",
    entries=(
        JournalEntry(
            number=1,
            kind="replace",
            path="t-0/00000000000000000000.index",
            why="rebuilt",
            before=Fingerprint(64, -1, "0" * 64),
            after=Fingerprint(120, 2, "1" * 64),
            old_attributes=replace(OWNED, extended={}),
            new_attributes=OWNED,
            saved="inline",
            inline=b"old",
            new_sha256="1" * 64,
            swap=50,
        ),
        JournalEntry(
            number=3,
            kind="cut",
            path="t-0/00000000000000000000.log",
            why="damaged",
            before=Fingerprint(9000, 3, "2" * 64),
            after=Fingerprint(4000, 3, "3" * 64),
            old_attributes=OWNED,
            saved="tail",
            saved_sha256="4" * 64,
        ),
    ),
    pointer_is_directory=False,
    keeps_old=True,
    logs={"t-0/00000000000000000050.log": Fingerprint(700, 4, "5" * 64)},
    left=frozenset({3}),
)
OWNED_TEXT: Final = '{"uid":1001,"gid":1002,"mode":"0640","extended":{"user.note":"b2YgdGhlIGJyb2tlcg=="}}'
TEXT: Final = (
    '{"sha256":"47affae8c2af7d88bfcce70fca151be45f5680e175bac1b9d432fba320676943","kafkalog":"kafkalog undo journal",'
    '"version":3,"run":"kafkalog-undo-20260102T030405Z-1",'
    '"command":"truncate","created_ms":1767323045000,"state":"complete","root":null,"pointer_is_directory":false,'
    '"keeps_old":true,"entries":[{"number":1,"kind":"replace","path":"t-0/00000000000000000000.index","why":"rebuilt",'
    f'"before":{{"size_bytes":64,"mtime_ns":-1,"sha256":"{"0" * 64}"}},'
    f'"after":{{"size_bytes":120,"mtime_ns":2,"sha256":"{"1" * 64}"}},'
    f'"had":{{"uid":1001,"gid":1002,"mode":"0640","extended":{{}}}},"has":{OWNED_TEXT},'
    f'"saved":"inline","inline":"b2xk","saved_sha256":null,"new_sha256":"{"1" * 64}","swap":50}},'
    '{"number":3,"kind":"cut","path":"t-0/00000000000000000000.log","why":"damaged",'
    f'"before":{{"size_bytes":9000,"mtime_ns":3,"sha256":"{"2" * 64}"}},'
    f'"after":{{"size_bytes":4000,"mtime_ns":3,"sha256":"{"3" * 64}"}},"had":{OWNED_TEXT},"has":null,'
    f'"saved":"tail","inline":null,"saved_sha256":"{"4" * 64}","new_sha256":null,"swap":null}}],"left":[3],'
    f'"logs":{{"t-0/00000000000000000050.log":{{"size_bytes":700,"mtime_ns":4,"sha256":"{"5" * 64}"}}}}}}\n'
)
POINTER: Final = (
    '{"sha256":"beb073f5c9504702f45cfa99e9a20676c5016d312bce6b94b8d598d8401d64f7","kafkalog":"kafkalog undo journal",'
    '"version":3,"run":"kafkalog-undo-20260102T030405Z-1","elsewhere":"/usr"}\n'
)
BEGUN: Final = (
    '{"sha256":"4b1cd005355fb69664588325d164f4a96a8de4d12460ffd99a823bf49bb58a1e","kafkalog":"kafkalog undo journal",'
    '"version":3,"run":"kafkalog-undo-20260102T030405Z-1","state":"begun"}\n'
)


def parse(text: bytes) -> Journal | str | None:
    return parse_journal(text, RUN, "/log", "top")


def changed(*changes: Callable[[dict[str, Any]], object]) -> Journal:
    """The journal that is read after changes of its file, which is sealed again."""
    value = json.loads(TEXT)
    for change in changes:
        change(value)
    journal = parse(sealed(value))
    assert isinstance(journal, Journal)
    return journal


def put(value: object, *way: str | int) -> Callable[[dict[str, Any]], None]:
    def change(members: Any) -> None:
        for key in way[:-1]:
            members = members[key]
        members[way[-1]] = value

    return change


def named(*way: str | int) -> str:
    """How messages name a member, which is under `way`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in way).removeprefix(".")


# --- bytes ------------------------------------------------------------------------------------------------------------
def test_what_is_written_is_what_earlier_releases_of_this_version_wrote_and_is_read_again(tmp_path: Path) -> None:
    """A journal on a disk is needed by whatever version of kafkalog the next command is of."""
    layout = replace(JOURNAL.layout, root=str(tmp_path), home=str(tmp_path))
    assert write_intent(Disk(), replace(JOURNAL, layout=layout), "complete", OURS).state == "complete"
    assert (tmp_path / RUN).read_text() == TEXT
    assert parse(TEXT.encode()) == JOURNAL
    write_beginning(Disk(), layout, OURS)
    assert (tmp_path / RUN).read_text() == BEGUN
    assert parse(BEGUN.encode()) is None
    write_pointer(Disk(), f"{tmp_path}/pointer", replace(layout, home="/usr/."), OURS)
    assert (tmp_path / "pointer").read_text() == POINTER
    assert parse(POINTER.encode()) == "/usr"
    assert sorted(os.listdir(tmp_path)) == [RUN, "pointer"]


# --- bounds -----------------------------------------------------------------------------------------------------------
LIMITS: Final = {
    "created_ms": (("created_ms",), 0, 253_402_300_799_999),
    "number": (("entries", 1, "number"), 2, 10**9),
    "size": (("entries", 0, "before", "size_bytes"), 0, 2**63 - 1),
    "mtime": (("entries", 0, "before", "mtime_ns"), -(2**63), 2**63 - 1),
    "mtime of a log": (("logs", "t-0/00000000000000000050.log", "mtime_ns"), -(2**63), 2**63 - 1),
    "uid": (("entries", 0, "has", "uid"), 0, 2**32 - 2),
    "gid": (("entries", 0, "had", "gid"), 0, 2**32 - 2),
    "swap": (("entries", 0, "swap"), 0, 2**63 - 1),
}


@pytest.mark.parametrize("name", LIMITS)
def test_numbers_are_what_kafkalog_and_the_system_can_count_to(name: str) -> None:
    way, low, high = LIMITS[name]
    for value in (low, high):
        assert changed(put([], "left"), put(value, *way)) != JOURNAL
    for value in (low - 1, high + 1):
        with pytest.raises(FieldError) as caught:
            changed(put(value, *way))
        assert caught.value.message == f"its member {named(*way)!r} is {value}, not an integer from {low} to {high}"


@pytest.mark.parametrize("mode", ["0000", "0777"])
def test_permissions_from_none_to_all(mode: str) -> None:
    entry = changed(put(mode, "entries", 0, "has", "mode")).entries[0]
    assert entry.new_attributes == replace(OWNED, mode=int(mode, 8))


@pytest.mark.parametrize("mode", ["1000", "4755", "00777", "777", "-001", "0o77", "0_77", " 777", "0888", "", "x"])
def test_permissions_that_no_run_writes(mode: str) -> None:
    with pytest.raises(FieldError, match="the permissions of a file are not an octal number up to 0777"):
        changed(put(mode, "entries", 0, "has", "mode"))


@pytest.mark.parametrize("name", ["", "a\0b", "\ud800"])
def test_an_extended_attribute_has_a_name_that_the_system_takes(name: str) -> None:
    assert changed(put({"user.a": "AA=="}, "entries", 0, "had", "extended")).entries[0].old_attributes == replace(
        OWNED, extended={"user.a": b"\0"}
    )
    with pytest.raises(FieldError, match="the name of an extended attribute cannot be one"):
        changed(put({"user.a": "AA==", name: "AA=="}, "entries", 0, "had", "extended"))


def test_a_command_has_up_to_forty_letters() -> None:
    for command in ("a", "-" * 40):
        assert changed(put(command, "command")).command == command
    for command in ("", "a" * 41, "Truncate", "truncate\n", "x y"):
        with pytest.raises(FieldError, match="its command is not one of kafkalog's"):
            changed(put(command, "command"))


@pytest.mark.parametrize("left", [[], [1], [3], [1, 3], [3, 1]])
def test_any_of_the_files_may_be_left_as_they_are(left: list[int]) -> None:
    assert changed(put(left, "left")).left == set(left)


@pytest.mark.parametrize("left", [[2], [0], [1, 3, 4], [3, 3], [True], ["3"], [3, None], [[3]]])
def test_only_files_that_the_journal_names_are_left_as_they_are_each_once(left: list[object]) -> None:
    with pytest.raises(FieldError, match="its member 'left' names a file that has no entry"):
        changed(put(left, "left"))


def test_a_cut_that_takes_nothing_away_makes_no_file_longer() -> None:
    cut = changed(put(9000, "entries", 1, "after", "size_bytes")).entries[1]
    assert cut.after is not None
    assert cut.after.size_bytes == 9000
    with pytest.raises(FieldError, match="its entry 3 is a truncation that makes a file longer"):
        changed(put(9001, "entries", 1, "after", "size_bytes"))


# --- paths ------------------------------------------------------------------------------------------------------------
PROBLEMS: Final = {
    "": "the path of a file is empty",
    "x\0y": "the path of a file contains a NUL character",
    "\ud800": "the path of a file contains a character that no file name can have",
    **dict.fromkeys(["/", "/x", "x/", "t-0//x", "a/b/c", ".", "..", "t-0/..", "./x"], "leads out of the directory"),
    **dict.fromkeys([RUN, f"t-0/{RUN}", f"{RUN}/x", f"{RUN}.new-0001"], "the path of a file is that of a journal"),
}


@pytest.mark.parametrize("path", PROBLEMS)
@pytest.mark.parametrize("of", ["entry", "log"])
def test_a_path_leads_to_a_file_of_the_log_directory_or_of_a_partition(of: str, path: str) -> None:
    log = {"size_bytes": 1, "mtime_ns": 0, "sha256": "0" * 64}
    with pytest.raises(FieldError) as caught:
        changed(put(path, "entries", 1, "path") if of == "entry" else put({path: log}, "logs"))
    assert caught.value.message.endswith(PROBLEMS[path])


def test_a_file_is_named_once() -> None:
    for change in (put([], "entries"), put("t-0/00000000000000000000.log", "entries", 0, "path")):
        with pytest.raises(FieldError, match="has no entry, or two for one file"):
            changed(change)


@pytest.mark.parametrize("home", ["/", "relative", "/a/", "/a/../b", "/a/./b", "/a//b", ""])
def test_a_pointer_leads_to_the_absolute_path_of_a_directory(home: str) -> None:
    with pytest.raises(FieldError, match=r"its member 'elsewhere' is (empty|not the absolute path of a directory)$"):
        changed(put(home, "elsewhere"))


# --- members ----------------------------------------------------------------------------------------------------------
def ways(value: Any, *way: str | int) -> Iterator[tuple[str | int, ...]]:
    """Where the members of a journal are, but for those that any name may have."""
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if isinstance(key, str):
            yield (*way, key)
        if key not in {"extended", "logs"}:
            yield from ways(inner, *way, key)


def test_no_member_may_be_missing() -> None:
    found = list(ways(json.loads(TEXT)))
    assert len(found) == 63
    for *above, last in found:

        def remove(members: Any, above: Sequence[str | int] = above, last: str | int = last) -> None:
            for key in above:
                members = members[key]
            del members[last]

        if last != "sha256" or above:  # sealing puts it back
            with pytest.raises(FieldError, match=re.escape(f"has no member {named(*above, last)!r}")):
                changed(remove)
