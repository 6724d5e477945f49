"""A printed command is one line that prints, and the shell reads it back to the same bytes."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st

from kafkalog_cli.render.summary import closed, sentence_lines
from kafkalog_core.command_lines import CommandLine, shell_line, shell_path, shell_word

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import pytest

SHELLS = [shell for shell in ("bash", "zsh", "ksh") if shutil.which(shell)]
NAMES = st.lists(st.binary(min_size=1, max_size=12).filter(lambda name: b"\0" not in name), min_size=1, max_size=8)
AWKWARD = [
    b"a b",
    b"it's",
    b'"',
    b"a\nb",
    b"\xff",
    b"-x",
    b"\x1b[31m",
    b"$HOME",
    b"\\n",
    b"!!",
    b"\xc3\xa9",
    b"~",
    b"*",
]
MIXED = [b"it's!\n\xffab0", b"\xc3\xa9\x0719\\'", b"\xe2\x80\xae7", b"\xc2\xa0", b"`id`\t$(id)"]


def read_by(shell: str, words: str) -> list[bytes]:
    """The words as the shell passes them to a command."""
    done = subprocess.run([shell, "-c", rf"printf '%s\0' {words}"], capture_output=True, check=True)
    return done.stdout.split(b"\0")[:-1]


@given(NAMES)
@example(AWKWARD)
@example(MIXED)
def test_the_shell_reads_the_same_bytes(names: Sequence[bytes]) -> None:
    texts = [os.fsdecode(name) for name in names]
    line = shell_line(texts)
    assert line.isprintable()
    for shell in SHELLS:
        assert read_by(shell, line) == list(names)


@given(NAMES, st.integers(1, 100))
@example(AWKWARD, 40)
@example(MIXED, 40)
def test_a_command_in_a_sentence_is_not_broken(names: Sequence[bytes], width: int) -> None:
    """Whatever its words are and however narrow the terminal: it is in one line, as it was quoted."""
    command = f"kafkalog undo {shell_line(map(os.fsdecode, names))} --run r --apply"
    for text in (f"it was interrupted. Finish it first: {command}", f"finish it ({command}) or leave it; nothing else"):
        lines = sentence_lines(text, width)
        assert sum(command in line for line in lines) == 1
    assert closed(f"done. Take it back: {command}").endswith("--apply")
    assert closed(f"it is kept ({command})").endswith(").")


def test_words_that_need_nothing_are_left_as_they_are() -> None:
    assert shell_word("/var/lib/kafka/orders-0") == "/var/lib/kafka/orders-0"
    assert shell_word("/disk 1/é") == "'/disk 1/é'"
    assert shell_word("a\nb\udcff1") == r"$'a\nb\3771'"
    assert shell_path("-x/t-0") == "./-x/t-0"
    assert shell_word("-1") == "-1"


def test_options_go_before_what_ends_them(tmp_path: Path) -> None:
    line = CommandLine(program="kafkalog retain", arguments=("--apply", "--", "-d", "--apply"))
    assert line.with_options("--apply", "--set a=1") == "kafkalog retain --apply --set a=1 -- -d --apply"
    assert line.without("--apply").with_options() == "kafkalog retain -- -d --apply"
    elsewhere = CommandLine(program="kafkalog retain", arguments=("d",), directory=str(tmp_path / "a b"))
    assert elsewhere.with_options("--apply") == f"cd '{tmp_path}/a b' && kafkalog retain d --apply"


def test_it_can_be_made_where_the_current_directory_is_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    line = CommandLine(program="kafkalog retain", arguments=("d",), directory="/x")
    assert line.with_options() == "cd /x && kafkalog retain d"
