"""One answer about one disk: verify, dump, truncate, reindex and checkpoint agree, under each family of releases.

What verify reports that a broker does comes from the simulated start, with which truncate plans. Whether that start is
the true one is known of the real brokers that were started on these disks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.corpus import agreeing
from tests.corpus.agreeing import FAMILIES, Case

if TYPE_CHECKING:
    from pathlib import Path

CASES: Final = agreeing.cases()
_FEW: Final = (
    "/crash-0.8.0",
    "/crash-0.8.2.2",
    "/crash-0.11.0.3",
    "/crash-2.8.2",
    "clean/log.flip.value.last",
    "clean/log.tail.zeros_large",
    "clean/log.length.huge.above",
)
"""Cases of fixtures/ that every run of the tests checks; the other ones are checked with the whole corpus."""
_NOT_ON_THE_DISK: Final = {
    "dir.lock_held": "another process holds the lock",
    "B.lock_held": "another process holds the lock",
    "B.dir_empty": "verify refuses an empty directory, as nothing shows that it is a log directory",
    "B.dir_missing": "the directory is missing, so that it cannot be checked",
    "meta_properties.wrong_cluster_id": "the id of the cluster is known to the other brokers alone",
    "meta_properties.wrong_node_id": "the id of the node is in its configuration alone",
}
"""Why a broker did not start although its log directories do not show a reason."""


def name_of(case: Case) -> str:
    """The name of a test."""
    return case.id


@pytest.mark.slow
@pytest.mark.parametrize("case", [case for case in CASES if case.id.endswith(_FEW)], ids=name_of)
def test_a_few_disks_have_one_answer(corpus: Path, tmp_path: Path, case: Case) -> None:
    _check(corpus, tmp_path, case)


@pytest.mark.corpus
@pytest.mark.parametrize("case", [case for case in CASES if not case.id.endswith(_FEW)], ids=name_of)
def test_every_disk_has_one_answer(corpus: Path, tmp_path: Path, case: Case) -> None:
    _check(corpus, tmp_path, case)


def _check(corpus: Path, tmp_path: Path, case: Case) -> None:
    own = case.release(corpus)
    for directory in case.lay(corpus, tmp_path):
        if any(directory.iterdir()):
            found = [line for kafka in (own, *FAMILIES) for line in agreeing.disagreements(directory, kafka)]
            assert found + agreeing.other_disagreements(directory, own) == []


@pytest.mark.corpus
@pytest.mark.parametrize("case", [case for case in CASES if case.fault is not None], ids=name_of)
def test_a_broker_does_not_start_where_verify_reports_it(corpus: Path, tmp_path: Path, case: Case) -> None:
    """The truth is what the real broker did: it stopped, or took its only log directory offline and stopped then."""
    directories = case.lay(corpus, tmp_path)
    found = agreeing.findings([each for each in directories if any(each.iterdir())], case.release(corpus))
    fault = case.fault
    assert fault is not None
    is_reported = any(map(agreeing.is_out_of_service, found))
    if fault.path.rpartition("/")[2] in _NOT_ON_THE_DISK:
        assert not is_reported
    elif "two-log-dirs" not in case.id:
        assert is_reported == (not fault.sheet["started"])
    else:  # with another log directory the broker goes on without the one that is offline
        assert is_reported or fault.sheet["started"]
