"""What a command can find: one catalogue of stable codes, and the value that it hands out."""

from kafkalog_core.findings.catalogue import FINDING_TYPES, NOT_SHOWN, for_rules, found
from kafkalog_core.findings.kinds import DENIED, Finding, FindingType, Severity

__all__ = ["DENIED", "FINDING_TYPES", "NOT_SHOWN", "Finding", "FindingType", "Severity", "for_rules", "found"]
