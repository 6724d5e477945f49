"""`kafkalog quorum`: what each of the controllers' disks can do for a quorum that does not form, as a plan.

- `survivors` changes nothing: whose log is the longest, and what each choice loses.
- `force-standalone` makes the node with the longest log the only voter.
- `change-address` gives the voters other addresses.
- `cut` ends the metadata log before an offset, on every disk of a voter that is named.

Each of them begins an epoch that no node knows yet (`quorum.EPOCHS_BEYOND`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from kafkalog_core.command_lines import shell_path
from kafkalog_core.errors import RefusedError
from kafkalog_core.format.control import Endpoint, KRaftVoter
from kafkalog_core.kafka.sim.metadata_log import Until, live_snapshots, read_image
from kafkalog_core.ops.cluster.losses import loss_rows, loss_sentences
from kafkalog_core.ops.quorum.elections import election_sentences, elections_to_come
from kafkalog_core.ops.quorum.quorum import EPOCHS_BEYOND, read_quorum, voters_text
from kafkalog_core.ops.quorum.rescue import stage_election, stage_quorum_state, stage_whole_end, with_addresses
from kafkalog_core.ops.repair.loss import measure_loss
from kafkalog_core.ops.repair.plan import PlanReport
from kafkalog_core.ops.truncate.truncate import plan_truncate
from kafkalog_core.ops.truncate.truncation import Truncation, truncate_at_offset
from kafkalog_core.output.chunk import RowChunk
from kafkalog_core.output.clusters import CLUSTER_DIFFERENCE, QUORUM_DISK, QUORUM_PARTITION
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.structs import replace
from kafkalog_core.text import first_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kafkalog_core.kafka.sim.quorum_disk import QuorumDisk
    from kafkalog_core.ops.quorum.quorum import Quorum, Row
    from kafkalog_core.ops.repair.loss import Loss
    from kafkalog_core.ops.repair.plan import PlanRequest
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Stage

__all__ = ["ACTIONS", "plan_quorum", "targets_of"]

SURVIVORS, STANDALONE, ADDRESS, CUT = ACTIONS = ("survivors", "force-standalone", "change-address", "cut")


def targets_of(quorum: Quorum, action: str) -> tuple[str, ...]:
    """Return the directories of the metadata logs that an action is planned for."""
    if action == CUT:
        return tuple(disk.path for disk in quorum.members or quorum.disks)
    return (quorum.longest.path,)


def plan_quorum(request: PlanRequest, stage: Stage, progress: Progress) -> PlanReport:
    """Plan `kafkalog quorum` for one metadata log: stage the changes and return the report.

    Options: `action`, one of `ACTIONS`; `disks`, the directories of all metadata logs that were named; `addresses`,
    host and port by the id of a node and the name of its listener (empty: the only one); `at`, the offset of a cut;
    `kafka` (of a SettingsRequest).

    Raises RefusedError where the action is not possible, StorageError if a disk cannot be read.
    """
    return _Planner(request, stage, progress).plan()


class _Planner:
    def __init__(self, request: PlanRequest, stage: Stage, progress: Progress) -> None:
        options = request.options
        self._request, self._stage, self._progress = request, stage, progress
        self._action = str(options["action"])
        self._quorum = read_quorum(cast("Sequence[str]", options["disks"]), kafka=request.settings.kafka)
        addresses = cast("Mapping[str, Mapping[str, Sequence[object]]]", options.get("addresses") or {})
        self._addresses = {
            int(node): {name: (str(host), int(str(port))) for name, (host, port) in each.items()}
            for node, each in addresses.items()
        }
        at = options.get("at")
        self._at = at if isinstance(at, int) else 0
        paths = {place.path for place in request.target.partitions}
        self._disk = next(disk for disk in self._quorum.disks if disk.path in paths)
        self._epoch = self._quorum.epoch + EPOCHS_BEYOND

    def plan(self) -> PlanReport:
        """Stage the changes, and return the report."""
        if self._action == SURVIVORS:
            return self._survivors()
        self._check()
        if self._action == STANDALONE:
            return self._standalone()
        return self._cut() if self._action == CUT else self._change_address()

    # --- the actions --------------------------------------------------------------------------------------------------
    def _survivors(self) -> PlanReport:
        quorum, disk = self._quorum, self._disk
        may_lead = f"{_name(disk)} commits them if it leads, and a leader whose log ends before removes them"
        sentences = [*self._committed(may_lead), *self._further()]
        for each in quorum.members or quorum.disks:
            if each is not disk and each is not quorum.furthest:
                sentences += [f"If {_name(each)} decides: {text}" for text in self._lost_with(each)]
        sentences += [*self._lost_with(disk), self._forms()]
        problem = "" if disk.problem is None else f"; BUT IT IS DAMAGED, OR DOES NOT LOAD: {disk.problem}"
        found = self._report(
            f"{_name(disk)} has the longest metadata log{self._of_named()}: it ends at offset {disk.end.offset} in "
            f"epoch {disk.end.epoch}{problem}",
            sentences,
            self._lost_rows(disk),
        )
        return replace(found, only_shows=True, next_command=self._next_command())

    def _standalone(self) -> PlanReport:
        quorum, disk = self._quorum, self._disk
        if quorum.voters == (self._node_id,) and self._is_whole() and not self._addresses:
            # Another epoch would only make the undo of the first one harder.
            sentence = (
                "If force-standalone has made it so, nodes that were voters before must not start with the metadata "
                "log on their disks, and controller.quorum.bootstrap.servers of every node has to name this one. What "
                f"was done: kafkalog undo --list {shell_path(disk.log_dir)}"
            )
            return self._report(f"{_name(disk)} is the only voter already: {_IN_THE_LOG}", [sentence], [])
        stage_whole_end(disk, self._stage)
        if disk.is_dynamic:
            stage_election(disk, [self._own_voter()], self._epoch, self._request.now_ms, self._stage)
        stage_quorum_state(disk, self._epoch, self._stage, leader_id=self._node_id)
        others = [voter for voter in quorum.voters if voter != self._node_id]
        gone = {voter for voter in quorum.absent if voter != self._node_id and voter in disk.reading.image.brokers}
        elections = elections_to_come(disk.reading.image, quorum.furthest.reading.image, gone)
        sentences = [
            *self._lost_sentences(),
            *self._committed("the leader commits them when it starts"),
            *self._further(),
            *([_never(others)] if others else []),
            self._setting(),
            *election_sentences(elections, gone),
            _AHEAD,
            _UNDO,
        ]
        verdict = (
            f"{_name(disk)} becomes the only voter{self._of_named()}, and leads from its next start on what its "
            f"metadata log has up to offset {disk.end.offset}"
        )
        found = self._report(verdict, sentences, self._lost_rows(disk), elections)
        return replace(found, losses=tuple(self._losses()))

    def _change_address(self) -> PlanReport:
        quorum, disk = self._quorum, self._disk
        if not disk.is_dynamic:
            reason = "no file has the addresses of the voters: they are not in the log (kraft.version 0)"
            way = WayOut("change controller.quorum.voters in the server.properties of every node instead")
            raise _refused(disk, reason, way)
        voters = disk.reading.image.voters
        unknown = sorted(self._addresses.keys() - {voter.voter_id for voter in voters})
        if unknown:
            reason = f"node {unknown[0]} is none of the {voters_text(quorum.voters)}"
            raise _refused(disk, reason, WayOut("name voters alone with --address"))
        changed = [self._moved(voter) for voter in voters]
        if changed == list(voters) and self._is_whole():
            return self._report(f"the voters have these addresses already: {_IN_THE_LOG}", [_NEW_SETTINGS], [])
        stage_whole_end(disk, self._stage)
        stage_election(disk, changed, self._epoch, self._request.now_ms, self._stage)
        stage_quorum_state(disk, self._epoch, self._stage, leader_id=self._node_id)
        shown = first_of(
            [
                f"node {node} at {host}:{port}{f' ({name})' if name else ''}"
                for node, each in sorted(self._addresses.items())
                for name, (host, port) in each.items()
            ]
        )
        sentences = [
            *self._lost_sentences(),
            *self._further(),
            _NEW_SETTINGS,
            f"A majority of {quorum.majority} of the {voters_text(quorum.voters)} has to start",
            _UNDO,
        ]
        found = self._report(f"the voters get other addresses: {shown}", sentences, self._lost_rows(disk))
        return replace(found, losses=tuple(self._losses()))

    def _cut(self) -> PlanReport:
        disk, at = self._disk, self._at
        start = disk.partition.segments[0].base_offset if disk.partition.segments else disk.end.offset
        kept = [file for file in live_snapshots(disk.partition) if (file.name.base_offset or 0) <= at]
        if at >= disk.end.offset:
            raise _refused(disk, f"the log ends at offset {disk.end.offset} already", WayOut("name a lower offset"))
        if at < start or (start and not any((file.name.base_offset or 0) >= start for file in kept)):
            reason = f"the log starts at offset {start}, and no snapshot up to offset {at} begins there or later"
            raise _refused(disk, reason, WayOut("name a later offset"), WayOut("cut the disk of another controller"))
        truncation = truncate_at_offset(disk.partition, at, self._progress.advance)
        if not isinstance(truncation, Truncation):
            raise _refused(disk, f"damage hides where offset {at} is", _verify(disk))
        end = truncation.end_offset  # of whole batches: a broker replays all records of a batch or none
        after = read_image(disk.path, until=Until(offset=end - 1), stops_at_damage=True)
        # Snapshots first: one that is ahead of the log would replace the log at a start in between.
        for file in live_snapshots(disk.partition):
            if file not in kept:
                self._stage.remove(file.path, why=f"the snapshot has records after offset {at}")
        options = {"kafka": self._request.options.get("kafka"), "to_offset": at}
        report = plan_truncate(replace(self._request, options=options), self._stage, self._progress)
        stage_quorum_state(disk, self._epoch, self._stage)
        images = disk.reading.image, after.image
        differences = loss_rows(*images)
        absent = self._quorum.absent
        sentences = [
            *loss_sentences(*images, differences),
            *self._committed(),
            *([_not_cut(absent)] if absent else []),
            _AHEAD,
            _UNDO,
        ]
        if after.unfinished is not None:
            sentences.insert(1, "The offset is in a metadata transaction: nothing of it takes effect")
        inside = "" if end == at else f" (offset {at} is in a batch that starts there)"
        found = self._report(
            f"the metadata log of {_name(disk)} ends at offset {end} instead of {disk.end.offset}{inside}",
            sentences,
            differences,
        )
        return replace(found, losses=report.losses, release=report.release, needs_release=report.needs_release)

    def _is_whole(self) -> bool:
        """Return whether a start changes nothing of the log, and no named node has seen a later epoch."""
        disk = self._disk
        return (
            self._quorum.is_voter(disk)
            and disk.epoch == self._quorum.epoch
            and disk.torn is None
            and not disk.is_replaced
        )

    # --- what they have in common -------------------------------------------------------------------------------------
    @property
    def _node_id(self) -> int:
        return self._disk.node_id or 0

    def _check(self) -> None:
        disk = self._disk
        if disk.node_id is None:
            reason = f"meta.properties of {disk.log_dir} has no node.id, so that no node can be made a voter"
            raise _refused(disk, reason, _checkpoint(disk))
        if disk.problem is not None:
            others = [shell_path(each.log_dir) for each in self._quorum.members if each is not disk]
            other = WayOut("go on with the others", f"kafkalog quorum {' '.join(others)} {self._action}")
            reason = f"the longest metadata log is damaged, or does not load: {disk.problem}"
            raise _refused(disk, reason, _verify(disk), *([other] if others and self._action == STANDALONE else []))

    def _moved(self, voter: KRaftVoter) -> KRaftVoter:
        """Return a voter with the addresses that are given for it. Raises RefusedError."""
        try:
            return with_addresses(voter, self._addresses.get(voter.voter_id, {}))
        except ValueError as error:
            names = [each.name for each in voter.endpoints]
            options = " ".join(f"--address {voter.voter_id}/{name}=HOST:PORT" for name in names)
            raise _refused(self._disk, str(error), WayOut("name the listeners", options=options)) from None

    def _own_voter(self) -> KRaftVoter:
        """Return the node as a voter, with its directory as it is."""
        disk, image = self._disk, self._disk.reading.image
        directory_id = disk.identity.directory_id
        if directory_id is None:
            reason = f"meta.properties of {disk.log_dir} has no directory.id, by which a voter is known (KIP-853)"
            raise _refused(disk, reason, _checkpoint(disk))
        known = next((voter for voter in image.voters if voter.voter_id == disk.node_id), None)
        controller = image.controllers.get(self._node_id)
        if known is None:
            endpoints = () if controller is None else controller.listeners
            known = KRaftVoter(
                voter_id=self._node_id,
                directory_id=directory_id,
                endpoints=tuple(Endpoint(name=each.name, host=each.host, port=each.port) for each in endpoints),
                min_kraft_version=0,
                max_kraft_version=1,
            )
        own = self._moved(replace(known, directory_id=directory_id))
        if not own.endpoints:
            reason = f"no record has the address of the controller of node {disk.node_id}, which is not a voter"
            raise _refused(disk, reason, WayOut("name its address", options=f"--address {disk.node_id}=HOST:PORT"))
        return own

    def _report(
        self, verdict: str, sentences: Iterable[str], differences: Sequence[Row], elections: Sequence[Row] = ()
    ) -> PlanReport:
        tables = (
            (QUORUM_DISK, [*self._quorum.rows()]),
            (CLUSTER_DIFFERENCE, differences),
            (QUORUM_PARTITION, elections),
        )
        return PlanReport(
            verdict=verdict,
            note="\n".join(sentences),
            details=tuple(RowChunk(table, rows) for table, rows in tables if rows),
        )

    # --- sentences ----------------------------------------------------------------------------------------------------
    def _of_named(self) -> str:
        others = len(self._quorum.members) - 1
        return f" of the {others + 1} named voters" if others > 0 else ""

    def _forms(self) -> str:
        quorum, named = self._quorum, len(self._quorum.members)
        if not quorum.voters:
            return "The voters are not known: controller.quorum.voters in server.properties has them"
        if named >= quorum.majority:
            return (
                f"The disks of {named} of {voters_text(quorum.voters)} are named, a majority: start these nodes, and "
                "they form a quorum without any change"
            )
        alone = "" if self._disk.problem else ". If the others are lost, go on with the longest log alone"
        return (
            f"The disks of {named} of {voters_text(quorum.voters)} are named, fewer than a majority of "
            f"{quorum.majority}: these nodes wait for the others for ever{alone}"
        )

    def _next_command(self) -> str | None:
        quorum = self._quorum
        if self._disk.problem is not None:
            return _verify(self._disk).command
        if not quorum.voters or len(quorum.members) >= quorum.majority:
            return None
        return f"kafkalog quorum {' '.join(shell_path(disk.log_dir) for disk in quorum.disks)} {STANDALONE}"

    def _committed(self, then: str | None = None) -> Iterator[str]:
        """Yield which records are committed, and what becomes of the others; None: the plan removes them."""
        quorum, end = self._quorum, self._quorum.longest.end.offset
        if quorum.committed >= end:
            return
        text = f"Records up to offset {quorum.committed} are committed for certain"
        if quorum.voters and not quorum.absent:
            text += f"; no majority has those from there to {end}, so they were never acknowledged"
        else:
            text += f"; those from there to {end} may not be"
        yield text if then is None else f"{text}: {then}"

    def _further(self) -> Iterator[str]:
        """Yield what other logs have that the longest one of a voter does not."""
        quorum = self._quorum
        for disk in quorum.disks:
            common = quorum.common(disk)
            if disk.end.offset > common:
                yield (
                    f"The log of {_name(disk)} has records from offset {common} to {disk.end.offset} that this log "
                    "does not have: it truncates them when it starts"
                )

    def _lost_rows(self, disk: QuorumDisk) -> list[Row]:
        """Return what the cluster loses or changes if a disk decides, compared with the disk that has most."""
        furthest = self._quorum.furthest
        return [] if disk is furthest else loss_rows(furthest.reading.image, disk.reading.image)

    def _lost_with(self, disk: QuorumDisk) -> Iterator[str]:
        yield from loss_sentences(self._quorum.furthest.reading.image, disk.reading.image, self._lost_rows(disk))

    def _lost_sentences(self) -> Iterator[str]:
        quorum, disk = self._quorum, self._disk
        yield from self._lost_with(disk)
        if quorum.absent:
            lost = [voter for voter in quorum.absent if voter != disk.node_id]
            if lost:
                yield (
                    f"What {_nodes(lost)} wrote after offset {disk.end.offset} is lost, and no named disk shows what "
                    "it was"
                )

    def _losses(self) -> Iterator[Loss]:
        """Yield the records of the log that has most, which the cluster loses."""
        for disk, cuts in self._quorum.lost_logs():
            loss = measure_loss(disk.partition, cuts, None) if disk is self._quorum.furthest else None
            if loss is not None:
                yield replace(
                    loss, why=f"the longest log of a voter ends at {self._quorum.longest.end.offset}", cure=None
                )

    def _setting(self) -> str:
        node = self._node_id
        if self._disk.is_dynamic:
            return "Set controller.quorum.bootstrap.servers of every node to the address of this node before it starts"
        return (
            f"Set controller.quorum.voters of every node to {node}@HOST:PORT alone before it starts: up to 3.7 a start "
            "compares the setting with the voters in quorum-state, which this plan changes too"
        )


_AHEAD: Final = (
    "A broker whose metadata log goes on after this one truncates it when it starts; one that is still running ends "
    "its process there (the leader requested truncation below the high watermark): restart it. It renames the "
    "directories of topics that are gone to -stray, and keeps their records"
)
_IN_THE_LOG: Final = "nothing has to be changed in the log"
_NEW_SETTINGS: Final = (
    "Set listeners, advertised.listeners and controller.quorum.bootstrap.servers of every node to the new addresses, "
    "and start all voters: the other voters take the addresses from this log"
)
_UNDO: Final = (
    "kafkalog undo is possible until this node has started: from then on its log goes on, and the undo is refused"
)


def _refused(disk: QuorumDisk, reason: str, *ways: WayOut) -> RefusedError:
    return RefusedError(Refusal(reason, ways), path=disk.path)


def _verify(disk: QuorumDisk) -> WayOut:
    return WayOut("see all of the damage", f"kafkalog verify {shell_path(disk.path)}")


def _checkpoint(disk: QuorumDisk) -> WayOut:
    return WayOut("restore it from the metadata log", f"kafkalog checkpoint {shell_path(disk.log_dir)}")


def _never(others: Sequence[int]) -> str:
    return (
        f"{_nodes(others).capitalize()} must never start again with the metadata log on {_its(others)}: "
        "a majority of the old voters would elect a leader of its own. Move __cluster_metadata-0 out of the log "
        "directory first, or format the disk; then the node copies the log of this one"
    )


def _its(nodes: Sequence[int]) -> str:
    return "its disk" if len(nodes) == 1 else "their disks"


def _not_cut(absent: Sequence[int]) -> str:
    return (
        f"{_nodes(absent).capitalize()} {'is' if len(absent) == 1 else 'are'} not cut: a voter with a longer log wins "
        "the election, and brings the records back"
    )


def _nodes(nodes: Sequence[int]) -> str:
    return f"{'node' if len(nodes) == 1 else 'nodes'} {', '.join(map(str, nodes))}"


def _name(disk: QuorumDisk) -> str:
    return disk.path if disk.node_id is None else f"node {disk.node_id}"
