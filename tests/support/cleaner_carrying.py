"""Cleans of real directories: what a pass makes is put into the directory as a broker would, by plain writes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkalog_core.format.index import encode_txn_entry
from kafkalog_core.kafka.rules.cleaner_rules import CleaningRules, cleaning_rules
from kafkalog_core.kafka.rules.releases import Release, parse_release
from kafkalog_core.kafka.sim.cleaner.clean import next_pass
from kafkalog_core.kafka.sim.cleaner.log import CleanLog, read_clean_log
from kafkalog_core.kafka.sim.settings import Settings
from kafkalog_core.kafka.sim.start.segment_views import read_partition_view
from kafkalog_core.storage.partition import read_partition
from kafkalog_core.structs import replace
from tests.support import cleaner_logs as logs

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.kafka.rules.cleaner_rules import CleanConfig
    from kafkalog_core.kafka.sim.cleaner.clean import CleanPass, Group

KINDS = (".log", ".index", ".timeindex", ".txnindex")


def clean_log(
    directory: Path, config: CleanConfig, rules: CleaningRules, now_ms: int, checkpoint: int | None = None
) -> CleanLog:
    """A partition directory by itself as a cleaner sees it."""
    topic = Settings(release=rules.release).for_topic("t")
    view = read_partition_view(read_partition(str(directory)), None, topic, rules.release)
    assert view is not None
    return replace(read_clean_log(view, None, rules, config, now_ms), checkpoint=checkpoint)


class Cleaner:
    """Cleans one directory again and again, as a broker of one release."""

    def __init__(self, directory: Path, release: str = "4.3.1", **config: object) -> None:
        self.directory = directory
        self.rules = cleaning_rules(Release(*parse_release(release)))
        self.config = logs.config(**config)
        self.checkpoint: int | None = None

    def clean(self, now_ms: int, **config: object) -> CleanPass:
        """One pass, by force."""
        settings = replace(self.config, **config)  # type: ignore[arg-type]
        log = clean_log(self.directory, settings, self.rules, now_ms, self.checkpoint)
        _, work = next_pass(log, settings, self.rules, now_ms, force=True, heavy_keys=4)
        assert work is not None
        self.last = work
        made = [(group, self._made(group)) for group in work.run()]
        for group, _ in made:
            for source in group.sources:
                for kind in KINDS:
                    (self.directory / f"{source.base_offset:020d}{kind}").unlink(missing_ok=True)
        for group, files in made:
            for kind, content in files.items():
                path = self.directory / f"{group.base_offset:020d}{kind}"
                path.write_bytes(content)
                os.utime(path, ns=(group.mtime_ns, group.mtime_ns))
        self.checkpoint = work.end_offset
        return work

    def _made(self, group: Group) -> dict[str, bytes]:
        content = bytearray()
        for chunk in group.chunks():
            for position, size in zip(
                chunk.batches.column("position"), chunk.batches.column("size_bytes"), strict=True
            ):
                assert position == len(content)
                content += chunk.data[position - group.size_bytes + len(chunk.data) :][:size]
        indexes = group.indexes
        files = {".log": bytes(content), ".index": indexes.offset_index}
        if indexes.time_index is not None:
            files[".timeindex"] = indexes.time_index
        if group.aborted:
            files[".txnindex"] = b"".join(
                encode_txn_entry(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset)
                for txn in group.aborted
            )
        return files
