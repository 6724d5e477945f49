"""The catalog of everything that a command can find: stable codes, their texts, and the finding itself."""

from kafkalog_core.findings.catalog import FINDING_TYPES, NOT_SHOWN, for_rules, found
from kafkalog_core.findings.kinds import DENIED, Finding, FindingType, Severity

__all__ = ["DENIED", "FINDING_TYPES", "NOT_SHOWN", "Finding", "FindingType", "Severity", "for_rules", "found"]
