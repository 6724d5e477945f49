"""Broker messages that look alarming and say nothing about a log directory: network, controller, configuration."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["ELSEWHERE"]


def _elsewhere(name: str, happened: str, *wordings: str, why: str = "") -> BrokerMessage:
    return BrokerMessage(
        name=f"broker.{name}",
        severity="info",
        wordings=wordings,
        happened=happened,
        why=why or "It comes with starts, stops and elections.",
        broker_action="Nothing that touches a log directory.",
        cure="Nothing needs to be done on the disk.",
        commands=(),
        is_elsewhere=True,
    )


ELSEWHERE: Final = (
    _elsewhere(
        "elsewhere-controller",
        "The controller changes, or had nobody to lead a partition for a moment.",
        "Performing controller activation",
        "NotControllerException",
        "The active controller appears to be node",
        "initiated state change for partition {partition} from OfflinePartition to OnlinePartition failed",
        "NoReplicaOnlineException",
        "Unexpected error handling request RequestHeader(",
        "STALE_BROKER_EPOCH",
        "StaleBrokerEpochException",
        "handleResponse: unexpected callback exception",
    ),
    _elsewhere(
        "elsewhere-shutdown",
        "Something was closed twice, or had already been closed, during a stop.",
        "Attempting to close NetworkClient that has already been closed",
        "Exception while execution the action",
        "ClosedChannelException",
    ),
    _elsewhere(
        "elsewhere-network",
        "A connection was lost or refused.",
        "Closing socket for {other} because of error",
        "Connection to node {number} ({other}) could not be established",
        "Error in response for fetch request",
        "for server {other}, unexpected error, closing socket connection and attempting reconnect",
        "Broken pipe",
        "Connection reset by peer",
        "Connection refused",
    ),
    _elsewhere(
        "elsewhere-configuration",
        "A setting is not known, not valid, or unwise.",
        "Property {other} is not valid",
        "It is smaller than message.timestamp.difference.max.ms's value",
        why="A remark about settings; it is written at each start.",
    ),
)
