"""Ctrl-C at a place where nothing is half written."""

from __future__ import annotations

import os
import signal

import pytest

from kafkalog_cli.interrupt import Interruption, StoppableProgress, Stopped

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of another kind")


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
