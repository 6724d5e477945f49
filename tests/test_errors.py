"""Errors of ours travel between processes whole: with their kind, their attributes and their text."""

from __future__ import annotations

import pickle

import pytest

from kafkalog_core import errors

SAMPLES = (
    errors.NotFoundError("no such file", path="x"),
    errors.FormatError("not a batch", position=7),
    errors.ChecksumError("another checksum", stored=1, computed=2, position=3, path="x"),
    errors.CleanError("null-key", "a record without a key", path="x", position=9),
    errors.WorkerLostError("a process was killed"),
)


@pytest.mark.parametrize("error", SAMPLES, ids=lambda error: type(error).__name__)
def test_errors_travel_whole(error):
    error.add_note("seen on its way")
    arrived = pickle.loads(pickle.dumps(error))  # noqa: S301 - pickled on the spot
    assert type(arrived) is type(error)
    assert vars(arrived) == vars(error)
    assert (str(arrived), arrived.args) == (str(error), error.args)
