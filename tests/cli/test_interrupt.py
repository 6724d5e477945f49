"""Ctrl-C at a place where nothing is half written."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafkalog_cli.commands.running import Interruption, StoppableProgress, Stopped

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.live, pytest.mark.skipif(os.name != "posix", reason="signals of another kind")]


class Heard:
    def __init__(self):
        self.sizes = []

    def expect(self, size_bytes):
        self.sizes.append(("expect", size_bytes))

    def advance(self, size_bytes):
        self.sizes.append(("advance", size_bytes))


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_is_noted_and_the_second_raises():
    before = signal.getsignal(signal.SIGINT)
    with Interruption() as interruption:
        interruption.check()
        interrupt()
        assert interruption.is_noted()
        assert interruption.wait(60)
        with pytest.raises(KeyboardInterrupt) as caught:
            interrupt()
        assert caught.type is KeyboardInterrupt
    assert signal.getsignal(signal.SIGINT) is before


def test_work_ends_where_it_says_how_far_it_is():
    heard = Heard()
    with Interruption() as interruption:
        progress = StoppableProgress(heard, interruption)
        progress.expect(10)
        progress.advance(4)
        interrupt()
        progress.expect(5)
        with pytest.raises(Stopped):
            progress.advance(6)
    assert heard.sizes == [("expect", 10), ("advance", 4), ("expect", 5), ("advance", 6)]


def test_a_signal_that_is_ignored_stays_so():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with Interruption() as interruption:
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
            interrupt()
            assert not interruption.is_noted()
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


_INTERRUPTED_AT_IMPORT = """
import os, runpy, signal, sys

class Interrupting:
    wanted = sys.argv.pop(1)

    def find_spec(self, name, path=None, target=None):
        if name == self.wanted:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
runpy.run_module("kafkalog_cli", run_name="__main__", alter_sys=True)
"""


@pytest.mark.parametrize(
    "module",
    ["click", "kafkalog_cli.main", "kafkalog_core.errors", "kafkalog_cli.commands.verify", "rich", "rich.console"],
)
def test_an_interrupt_while_modules_are_imported(module, tmp_path):
    """Until its first command runs a process does nothing but import."""
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"")
    command = [sys.executable, "-c", _INTERRUPTED_AT_IMPORT, module, "verify", "--output", "table", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.returncode, done.stdout) == (1, "")
    lines = done.stderr.splitlines(keepends=True)
    said = "".join(line for line in lines if "no compiled kernels" not in line)  # of the interpreted twin
    assert said in {"kafkalog: interrupted\n", "\nAborted!\n"}


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device of Linux")
@pytest.mark.parametrize("arguments", [["--help"], ["verify", "--help"], ["--version"], ["completion", "bash"]])
def test_help_that_cannot_be_written(arguments):
    with open("/dev/full", "wb") as full:
        command = [sys.executable, "-m", "kafkalog_cli", *arguments]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False, cwd=ROOT)
    assert done.returncode == 1
    assert done.stderr.startswith("kafkalog: the result could not be written: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("step", range(1, 25))
def test_a_handler_may_run_anywhere_in_a_wait(step):
    """A signal is handled between any two steps of the thread that waits, also where that holds a lock."""
    code = f"""if True:
        import sys
        from kafkalog_cli.commands.running import SignalFlag
        flag, steps = SignalFlag(), 0

        def trace(frame, what, argument):
            global steps
            if what == "line":
                steps += 1
                if steps == {step}:
                    sys.settrace(None)
                    flag.set()
                    flag.set()
            return trace

        sys.settrace(trace)
        found = flag.wait(0.2)
        sys.settrace(None)
        assert found or steps < {step}
        assert flag.wait(0) == flag.is_set() == found
    """
    subprocess.run([sys.executable, "-c", code], check=True, timeout=30, cwd=ROOT)
