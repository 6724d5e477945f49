"""Share sessions: which partitions a member of a share group fetches, and whether its requests are in order (KIP-932).

The rules follow `ShareSessionCache`, `ShareSession` and `SharePartitionManager.newContext` of Kafka 4.3. A
session ends with its connection.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkalog_core.serve.logs.partition_access import PartitionError
from kafkalog_core.structs import Struct, field
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from kafkalog_core.serve.network.answers import CloseReason, ConnectionFacts, NetworkObserver

__all__ = ["FINAL_EPOCH", "INITIAL_EPOCH", "SessionObserver", "ShareSessions"]

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
"""Epochs by which a session begins and ends (`ShareRequestMetadata`)."""
_MAX_SESSIONS: Final = 2000  # group.share.max.share.sessions
_MAX_EPOCH: Final = 2**31 - 1

Partition = tuple[bytes, int]
"""A topic's id of 16 bytes, and a partition number."""


class SessionKey(NamedTuple):
    """Whose session it is."""

    group: str
    member: str


class _Session(Struct):
    """A session; `partitions`: in the order in which they are fetched."""

    connection_id: int
    epoch: int = 1
    partitions: dict[Partition, None] = field(default_factory=dict)


class ShareSessions:
    """All sessions. Thread-safe."""

    def __init__(self) -> None:
        """Begin without sessions."""
        self._sessions: dict[SessionKey, _Session] = {}
        self._by_connection: dict[int, set[SessionKey]] = {}
        self._gone: deque[int] = deque()
        self._lock = threading.Lock()

    def fetch(
        self,
        key: SessionKey,
        epoch: int,
        connection_id: int,
        *,
        added: Iterable[Partition],
        forgotten: Iterable[Partition],
        has_acknowledgements: bool,
    ) -> list[Partition]:
        """Return the partitions that a fetch reads; the epoch INITIAL_EPOCH begins a session.

        A fetch with FINAL_EPOCH reads nothing; `close` is called after it. Raises PartitionError.
        """
        with self._lock:
            if epoch == INITIAL_EPOCH:
                # A new session has acquired nothing that could be acknowledged (KIP-932).
                if has_acknowledgements:
                    raise PartitionError(ErrorCode.INVALID_REQUEST)
                self._drop(key)
                if len(self._sessions) >= _MAX_SESSIONS:
                    raise PartitionError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
                session = _Session(connection_id, partitions=dict.fromkeys(added))
                self._sessions[key] = session
                self._by_connection.setdefault(connection_id, set()).add(key)
                return list(session.partitions)
            session = self._next(key, epoch)
            if epoch == FINAL_EPOCH:
                return []
            session.partitions |= {each: None for each in added if each not in session.partitions}
            for each in forgotten:
                session.partitions.pop(each, None)
            return list(session.partitions)

    def acknowledge(self, key: SessionKey, epoch: int) -> None:
        """Take a request that only acknowledges (`acknowledgeSessionUpdate`). Raises PartitionError."""
        if epoch == INITIAL_EPOCH:
            raise PartitionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
        with self._lock:
            self._next(key, epoch)

    def _next(self, key: SessionKey, epoch: int) -> _Session:
        """Return a session whose epoch a request has, which goes up."""
        session = self._sessions.get(key)
        if session is None:
            raise PartitionError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if session.epoch != epoch:
                raise PartitionError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            # Epochs begin again with 1: 0 begins a session, and -1 ends it.
            session.epoch = 1 if epoch == _MAX_EPOCH else epoch + 1
        return session

    def rotate(self, key: SessionKey, sent: Iterable[Partition]) -> None:
        """Move partitions that have sent records to the end, so that the others are read first next time."""
        with self._lock:
            session = self._sessions.get(key)
            for each in sent if session is not None else ():
                if session is not None and each in session.partitions:
                    # A dictionary keeps the order of insertion: removed and added again, a partition comes last.
                    del session.partitions[each]
                    session.partitions[each] = None

    def close(self, key: SessionKey) -> None:
        """End a session."""
        with self._lock:
            self._drop(key)

    def _drop(self, key: SessionKey) -> None:
        session = self._sessions.pop(key, None)
        if session is not None:
            keys = self._by_connection.get(session.connection_id, set())
            keys.discard(key)
            if not keys:
                self._by_connection.pop(session.connection_id, None)

    # --- connections --------------------------------------------------------------------------------------------------
    def note_closed(self, connection_id: int) -> None:
        """Note that a connection was closed; `take_closed` ends its sessions. Network threads call this."""
        # Without the lock: a network thread must not wait for a timer.
        if connection_id in self._by_connection:
            self._gone.append(connection_id)

    def take_closed(self) -> list[SessionKey]:
        """End the sessions of connections that were closed, and return them. A timer calls this."""
        found: list[SessionKey] = []
        with self._lock:
            while self._gone:
                keys = sorted(self._by_connection.get(self._gone.popleft(), ()))
                for key in keys:
                    self._drop(key)
                found += keys
        return found


class SessionObserver:
    """A `NetworkObserver` that notes the end of connections for sessions, and passes every event on."""

    def __init__(self, sessions: ShareSessions, then: NetworkObserver) -> None:
        """Take the observer that gets each event too."""
        self._sessions = sessions
        self._then = then

    def __getattr__(self, name: str) -> Callable[..., None]:
        """Return what takes any other event."""
        found: Callable[..., None] = getattr(self._then, name)
        return found

    def connection_closed(
        self, connection: ConnectionFacts, reason: CloseReason, detail: str, error: BaseException | None
    ) -> None:
        """See NetworkObserver."""
        self._sessions.note_closed(connection.connection_id)
        self._then.connection_closed(connection, reason, detail, error)
