"""The verdict in sentences, for whoever has to decide at night which disk to trust."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kafkalog_core.ops.replicas.verdict import Lacks, Read, State, Verdict

__all__ = ["advice", "reason"]

_SIMPLE: Final[dict[State, str]] = {
    "keep": "Keep it.",
    "behind": "Leave it: its broker fetches the {behind} that it lacks.",
    "compacted": "Leave it: compaction has only come farther in it than elsewhere.",
    "trimmed": "Leave it: it starts later, as its oldest segments are deleted.",
    "identical": "Leave it as it is.",
}


def reason(reads: Sequence[Read], verdict: Verdict) -> str:
    """Why the copy that is to be kept, and what to do first."""
    if verdict.keep is None:
        return (
            f"The copies hold different records from offset {verdict.divergent_offset} on, and neither leader epochs "
            "nor high watermarks nor their lengths tell which are true: compare the records (kafkalog dump), and ask "
            "those who wrote them."
        )
    keep = reads[verdict.keep]
    parts = [_why(keep, verdict)]
    lacks = verdict.lacks[verdict.keep]
    if lacks.lost:
        parts.append(f"It lacks {_records(lacks.lost)} that another copy has ({_of_kinds(lacks)}).")
    risk = keep.tally.at_risk
    if risk:
        parts.append(f"First save the {_records(risk)} that it does not have: kafkalog dump of the other copies.")
    return " ".join(parts)


def _why(keep: Read, verdict: Verdict) -> str:
    path = keep.copy.place.path
    if verdict.basis == "leader-epoch":
        return (
            f"Keep {path}: its leader epoch {keep.history.latest} is the latest, so its history is the one that the "
            f"cluster went on with from offset {verdict.divergent_offset} on."
        )
    if verdict.basis == "high-watermark":
        mark = keep.copy.place.high_watermark
        return f"Keep {path}: leader epochs do not tell, but its high watermark {mark} is behind the difference."
    if verdict.basis == "length":
        return (
            f"Keep {path}, as it is the longest: neither leader epochs nor high watermarks tell which history is true, "
            "so look at the records first."
        )
    if all(state in {"keep", "identical"} for state in verdict.states):
        return "All copies are the same: any of them will do."
    if verdict.state in {"compacted", "trimmed"}:
        return f"No copy has lost anything: they are cleaned to different points. {path} holds most."
    return f"Keep {path}: of the one history that all copies have it lacks least."


def advice(reads: Sequence[Read], verdict: Verdict, number: int) -> str:
    """What to do with one copy."""
    read, state, lacks = reads[number], verdict.states[number], verdict.lacks[number]
    if state == "divergent":
        return _of_divergent(read, verdict, number)
    if state not in {"damaged", "missing"}:
        return _SIMPLE[state].format(behind=_records(lacks.behind))
    only = f" First save the {_records(read.tally.only_here)} that it alone has." if read.tally.only_here else ""
    if state == "missing":
        return (
            f"It has lost {_records(lacks.missing)}, which no broker notices: delete the directory, and its broker "
            f"fetches it anew.{only}"
        )
    flaw = read.cursor.first_flaw
    where = f" at byte {flaw.position} of {flaw.path} ({flaw.reason})" if flaw is not None else ""
    return f"Damaged{where}: delete the directory, and its broker fetches it anew.{only}"


def _of_divergent(read: Read, verdict: Verdict, number: int) -> str:
    at, cut = verdict.divergent_at[number], verdict.truncates_to[number]
    only = f"save the {_records(read.tally.only_here)} that it alone has, then " if read.tally.only_here else ""
    if verdict.keep is None:
        return f"It differs from offset {at} on: keep it until it is known which records are true."
    if verdict.silent[number]:
        where = "nowhere" if cut is None else f"only at offset {cut}"
        return (
            f"It differs from offset {at} on, and its broker would cut it {where}, so that the difference stays: {only}"
            "delete the directory, and its broker fetches it anew."
        )
    return f"Its broker cuts it at offset {cut} and fetches the rest: {only}let it start."


def _records(count: int) -> str:
    return "1 record" if count == 1 else f"{count} records"


def _of_kinds(lacks: Lacks) -> str:
    kinds = ((lacks.damaged, "damaged here"), (lacks.missing, "missing here"), (lacks.behind, "behind its end"))
    return ", ".join(f"{count} {text}" for count, text in kinds if count)
