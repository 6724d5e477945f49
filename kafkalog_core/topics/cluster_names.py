"""The words for the numbers in metadata records and in ZooKeeper: resources, operations, protocols, mechanisms."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "ACL_OPERATIONS",
    "ACL_PATTERNS",
    "ACL_PERMISSIONS",
    "ACL_RESOURCES",
    "CONFIG_RESOURCES",
    "SCRAM_MECHANISMS",
    "SECURITY_PROTOCOLS",
    "is_secret",
    "word_of",
]

CONFIG_RESOURCES: Final = {2: "topic", 4: "broker", 8: "broker-logger", 16: "client-metrics", 32: "group"}
"""ConfigResource.Type, as kafka-configs.sh spells them for --entity-type in the singular."""
ACL_RESOURCES: Final = {
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}
"""org.apache.kafka.common.resource.ResourceType."""
ACL_PATTERNS: Final = {3: "LITERAL", 4: "PREFIXED"}
"""org.apache.kafka.common.resource.PatternType."""
ACL_OPERATIONS: Final = {
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
"""org.apache.kafka.common.acl.AclOperation."""
ACL_PERMISSIONS: Final = {2: "DENY", 3: "ALLOW"}
"""org.apache.kafka.common.acl.AclPermissionType."""
SECURITY_PROTOCOLS: Final = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
"""org.apache.kafka.common.security.auth.SecurityProtocol."""
SCRAM_MECHANISMS: Final = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
"""org.apache.kafka.clients.admin.ScramMechanism."""

_SECRET_NAME: Final = re.compile(
    # ConfigDef.Type.PASSWORD, with any prefix of a listener: these, and names with "password", "secret" or "jaas".
    r"ssl\.(keystore\.(key|certificate\.chain)|truststore\.certificates)$"
    # Settings of plugins. A broker takes each setting of an unknown type for sensitive (KafkaConfig.maybeSensitive);
    # here a name that speaks of a secret is hidden, so that the other ones can be compared.
    r"|password|passphrase|passwd|secret|credential|jaas|token$|(access|account|api|private|shared)[._-]?key",
    re.IGNORECASE,
)
"""Names of settings whose values are secret. A metadata log has them in clear text (KRaft encrypts none)."""


def word_of(words: Mapping[int, str], number: int) -> str:
    """Return the word for a number; for an unknown number its digits."""
    return words.get(number, str(number))


def is_secret(setting: str) -> bool:
    """Return whether the value of a setting is a password, a key or the like."""
    return _SECRET_NAME.search(setting) is not None
