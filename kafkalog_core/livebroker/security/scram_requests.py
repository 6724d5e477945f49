"""DescribeUserScramCredentials and AlterUserScramCredentials (KIP-554): users in the metadata log.

Rules and messages follow `ScramControlManager` and `ScramImage` of Kafka 4.3.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from kafkalog_core.livebroker.topics.topic_changes import MAX_CHANGES, RefusedChange
from kafkalog_core.serve.security.users import ITERATIONS, Credential
from kafkalog_core.topics.cluster_names import SCRAM_MECHANISMS
from kafkalog_core.wire.error_codes import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkalog_core.livebroker.cluster.cluster_log import ClusterLog, MetadataChange
    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.serve.network.answers import Answer
    from kafkalog_core.serve.network.requests import Body, Handler, RequestContext

__all__ = ["ScramRequests"]

_FIRST_LEVEL: Final = 11  # metadata.version 3.5-IV2 (MetadataVersion.isScramSupported)
_NUMBERS: Final = {name: number for number, name in SCRAM_MECHANISMS.items()}
_TWICE: Final = "A user credential cannot be altered twice in the same request"
_NO_LOG: Final = "there is no metadata log here (a broker with ZooKeeper), so users cannot be stored"


class ScramRequests:
    """The handlers of the requests about SCRAM users."""

    def __init__(self, disks: LiveDisks) -> None:
        self._disks = disks

    def handlers(self) -> dict[str, tuple[int, Handler]]:
        """Return the last version that is served and the handler, by the name of the API."""
        return {"DescribeUserScramCredentials": (0, self.describe), "AlterUserScramCredentials": (0, self.alter)}

    def describe(self, context: RequestContext) -> Answer:
        """Answer DescribeUserScramCredentials: mechanisms and iterations, never keys."""
        known = self._disks.users.described()
        asked = [each["name"] for each in context.body["users"] or ()]
        results = []
        for user, times in (Counter(asked) or Counter(known.keys())).items():
            result: Body = {"user": user, "error_code": ErrorCode.NONE, "error_message": "", "credential_infos": []}
            if times > 1:
                message = f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
                result |= {"error_code": ErrorCode.DUPLICATE_RESOURCE, "error_message": message}
            elif user not in known:
                message = f"Attempt to describe a user credential that does not exist: {user}"
                result |= {"error_code": ErrorCode.RESOURCE_NOT_FOUND, "error_message": message}
            else:
                infos = [{"mechanism": _NUMBERS[name], "iterations": each} for name, each in known[user].items()]
                result["credential_infos"] = infos
            results.append(result)
        answer: Body = {"throttle_time_ms": 0, "error_code": ErrorCode.NONE, "error_message": ""}
        return context.reply(answer | {"results": results})

    def alter(self, context: RequestContext) -> Answer:
        """Answer AlterUserScramCredentials: all valid changes are one batch of the log."""
        with self._disks.changing() as cluster:
            changes, errors = _changes_of(context.body, cluster)
            if len(changes) > MAX_CHANGES:  # QuorumController: one batch of records for a request
                message = "Unable to perform excessively large batch operation."
                refusal = RefusedChange(ErrorCode.POLICY_VIOLATION, message)
                errors, changes = dict.fromkeys([*changes, *errors], refusal), {}
            cluster.write(list(changes.values()))
        results = [{"user": user, "error_code": ErrorCode.NONE, "error_message": None} for user in changes]
        results += [
            {"user": user, "error_code": error.code, "error_message": str(error)} for user, error in errors.items()
        ]
        return context.reply({"throttle_time_ms": 0, "results": results})


def _changes_of(body: Body, cluster: ClusterLog) -> tuple[dict[str, MetadataChange], dict[str, RefusedChange]]:
    """Return the changes by user, and why others are refused (`ScramControlManager.alterCredentials`)."""
    changes: dict[str, MetadataChange] = {}
    errors: dict[str, RefusedChange] = {}
    makers: tuple[tuple[str, Callable[[Body, ClusterLog], MetadataChange]], ...] = (
        ("deletions", _deletion),
        ("upsertions", _upsertion),
    )
    for name, make in makers:
        for asked in body[name]:
            user = asked["name"]
            if user in errors:
                continue
            # A deletion and an upsertion of one user have no order either: both are refused.
            if changes.pop(user, None) is not None:
                errors[user] = RefusedChange(ErrorCode.DUPLICATE_RESOURCE, _TWICE)
                continue
            try:
                _check_support(cluster)
                changes[user] = make(asked, cluster)
            except RefusedChange as refusal:
                errors[user] = refusal
    return changes, errors


def _check_support(cluster: ClusterLog) -> None:
    if not cluster.is_kept:
        raise RefusedChange(ErrorCode.UNSUPPORTED_VERSION, _NO_LOG)
    if cluster.level < _FIRST_LEVEL:
        message = "The current metadata.version does not support SCRAM"
        raise RefusedChange(ErrorCode.UNSUPPORTED_VERSION, message)


def _mechanism(asked: Body) -> str:
    """Return the mechanism of a change (`ScramControlManager.validateScramUsernameAndMechanism`)."""
    if not asked["name"]:
        raise RefusedChange(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    name = SCRAM_MECHANISMS.get(asked["mechanism"])
    if name is None:
        raise RefusedChange(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    return name


def _deletion(asked: Body, cluster: ClusterLog) -> MetadataChange:
    if _mechanism(asked) not in cluster.users.described().get(asked["name"], {}):
        message = "Attempt to delete a user credential that does not exist"
        raise RefusedChange(ErrorCode.RESOURCE_NOT_FOUND, message)
    return "RemoveUserScramCredentialRecord", 0, {"name": asked["name"], "mechanism": asked["mechanism"]}


def _upsertion(asked: Body, _: ClusterLog) -> MetadataChange:
    mechanism, iterations, salt = _mechanism(asked), asked["iterations"], bytes(asked["salt"])
    if iterations < ITERATIONS.start:
        raise RefusedChange(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations not in ITERATIONS:
        raise RefusedChange(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
    if not asked["salted_password"]:  # no key for an HMAC: UNKNOWN_SERVER_ERROR of a broker, without a reason
        raise RefusedChange(ErrorCode.UNACCEPTABLE_CREDENTIAL, "The salted password must not be empty")
    kept = Credential.of_salted_password(bytes(asked["salted_password"]), mechanism, salt, iterations)
    fields: dict[str, Any] = {
        "name": asked["name"],
        "mechanism": asked["mechanism"],
        "salt": salt,
        "stored_key": kept.stored_key,
        "server_key": kept.server_key,
        "iterations": iterations,
    }
    return "UserScramCredentialRecord", 0, fields
