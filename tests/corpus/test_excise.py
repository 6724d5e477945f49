"""Every fault of the corpus: after the excision a broker's recovery keeps each batch that was readable before.

`excise_left.txt` has the places that are left, and the starts that still end or truncate, each with its reason.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import StorageError
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.recover.excision import excise
from kafkalog_core.ops.recover.places import find_places
from kafkalog_core.ops.repair.context import read_context, target_dir
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.storage.scan import Run, ScanOptions, scan
from kafkalog_core.storage.source import Source
from tests.corpus import verifying
from tests.support.corpus import archives, faults, recovering
from tests.support.corpus.faults import BEFORE, SHEET, Fault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kafkalog_core.ops.recover.excision import Excision
    from kafkalog_core.storage.partition import Partition

pytestmark = pytest.mark.corpus

FAULTS = sorted(
    (
        Fault.parse(path.removesuffix(f"/{SHEET}"), text)
        for path, text in archives.contents(archives.source()).texts.items()
        if path.endswith(f"/{SHEET}")
    ),
    key=lambda fault: fault.path,
)
LINES = verifying.lines("excise_left.txt", 3)

Batch = tuple[int, int, int]
"""Last offset, size and checksum."""


@pytest.mark.parametrize("fault", [each for each in FAULTS if BEFORE in each.states], ids=lambda fault: fault.path)
def test_every_readable_batch_is_kept(corpus: Path, tmp_path: Path, fault: Fault) -> None:
    faults.build(corpus, fault, BEFORE, tmp_path / "before")
    case = "/".join(fault.path.split("/")[:2])
    pair = recovering.Pair(id=fault.path, case=case, before=".", after=".", fault=fault)
    options = pair.options(recovering.sheet_of(corpus, pair), tmp_path)
    found = []
    for directory in sorted((tmp_path / "before").rglob("*-[0-9]*")):
        if directory.is_dir() and any(directory.glob("*.log")):
            name = str(PurePosixPath(directory.relative_to(tmp_path / "before")))
            found += [(name, what) for what in _check(directory, options)]
    left = [each for each in found if not any(_explains(line, fault.path, *each) for line in LINES)]
    assert not left, "\n".join(f"{fault.path}  {directory}  {what}" for directory, what in left)


def _explains(line: tuple[str, ...], *found: str) -> bool:
    return all(map(verifying.is_like, found, line))


def test_every_line_of_the_list_is_of_a_fault() -> None:
    stale = [line for line in LINES if not any(verifying.is_like(fault.path, line[0]) for fault in FAULTS)]
    assert not stale or not archives.is_whole()


def _check(directory: Path, options: dict[str, dict[str, object]]) -> Iterator[str]:
    """What is not as it should be after the excision of all places of a partition."""
    try:
        partition = read_partition(str(directory))
        request = SettingsRequest.from_json(options["kafka"])  # type: ignore[arg-type]
        facts = read_context(target_dir([str(directory)]), request, 2_000_000_000_000).facts(partition.name)
        places = find_places(partition, facts, lambda _: None)
        if not any(each.is_excisable for each in places):
            return
        excision = excise(partition, facts, places)
    except StorageError as error:
        yield str(error)
        return
    yield from (f"left: {each.refusal}" for each in excision.left)
    if excision.problem is not None:
        yield f"still stops: {excision.problem.sentence}"
    if excision.still_truncates is not None:
        yield f"still truncates: {excision.still_truncates}"
    yield from _lost(partition, excision)


def _lost(partition: Partition, excision: Excision) -> Iterator[str]:
    """Readable batches that the new log lacks, apart from those that were replaced as such."""
    replaced = {(each.place.path, each.place.start) for each in excision.places}
    before = [each for segment in partition.segments for each in _batches(segment.files[0].path, replaced)]
    with excision.reading() as planned:
        after = {each for segment in planned.segments for each in _batches(segment.files[0].path, set())}
    lost = [each for each in before if each not in after]
    if lost:
        yield f"lost: {lost[:5]}"


def _batches(path: str, replaced: set[tuple[str, int]]) -> Iterator[Batch]:
    with Source.open(path) as source:
        for item in scan(source, base_offset=None, options=ScanOptions(resync=True)):
            if isinstance(item, Run):
                columns = map(item.batches.column, ("position", "last_offset", "size_bytes", "crc_stored"))
                for position, *batch in zip(*columns, strict=True):
                    if (path, position) not in replaced:
                        yield tuple(batch)
