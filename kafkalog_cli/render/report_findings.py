"""Findings on the page: those with the same cure stand together, each place with an anchor of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.cells import human_bytes
from kafkalog_cli.render.report_html import Html, element, join
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.words import count_of

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterable, Mapping, Sequence

    from kafkalog_cli.render.report_data import Code
    from kafkalog_core.findings import Finding

__all__ = ["badge", "code_section", "finding_list", "numbered"]

_SHORT: Final = 400
_RANK: Final = {"error": 0, "warning": 1, "info": 2}
_SIGNS: Final = {
    "error": "\N{HEAVY MULTIPLICATION X}",
    "warning": "!",
    "info": "i",
    "damaged": "\N{HEAVY MULTIPLICATION X}",
    "warnings": "!",
    "unread": "?",
    "clean": "\N{CHECK MARK}",
}


def badge(word: str) -> Html:
    """A severity or state with its colour and sign, so that colour is not all that tells it."""
    return element("span", element("span", _SIGNS[word], aria_hidden="true"), " ", word, class_=f"badge {word}")


def numbered(key: str, findings: Sequence[Finding]) -> dict[tuple[str, int | None], str]:
    """The anchor of each place; of several findings about one, the first's."""
    places: dict[tuple[str, int | None], str] = {}
    for number, finding in enumerate(findings):
        places.setdefault((finding.path, finding.position), f"{key}-{number}")
    return places


def finding_list(key: str, root: str, findings: Sequence[Finding]) -> Html:
    """Errors and warnings in full, what is normal folded; `root` is left out of the paths."""
    told = [(number, finding) for number, finding in enumerate(findings) if finding.severity != "info"]
    normal = [(number, finding) for number, finding in enumerate(findings) if finding.severity == "info"]
    parts = [_groups(key, root, told)] if told else []
    if normal:
        summary = element("summary", f"{count_of(len(normal), 'more finding')} of severity info: normal life")
        parts.append(element("details", summary, _groups(key, root, normal)))
    return join(parts)


def _groups(key: str, root: str, findings: Iterable[tuple[int, Finding]]) -> Html:
    groups: dict[tuple[str, ...], list[tuple[int, Finding]]] = {}
    for number, finding in findings:
        common = (finding.severity, finding.code, finding.broker_action or "", finding.cure or "")
        groups.setdefault(common, []).append((number, finding))
    items = [
        element(
            "li",
            element("p", badge(severity), " ", _code_link(code), class_="head"),
            element("ul", *(_place(key, root, number, finding) for number, finding in places), class_="places"),
            _texts({"A broker": [action], "Cure": [cure]}),
            class_=f"finding {severity}",
        )
        for (severity, code, action, cure), places in sorted(groups.items(), key=lambda item: _RANK[item[0][0]])
    ]
    return element("ul", *items, class_="findings")


def _code_link(code: str) -> Html:
    return element("a", code, href=f"#c-{code}", class_="mono", title="What this code means")


def _place(key: str, root: str, number: int, finding: Finding) -> Html:
    where = element("span", _where(finding, root), class_="mono where")
    return element("li", where, " ", finding.message, id=f"{key}-{number}")


def _where(finding: Finding, root: str) -> str:
    """`00000000000000000076.log at byte 4,096 (248 B)`."""
    path = finding.path.removeprefix(root.rstrip("/") + "/") if finding.path != root else "."
    if finding.position is None:
        return path if path != "." else "the directory"
    size = "" if not finding.size_bytes else f" ({human_bytes(finding.size_bytes)})"
    return f"{path} at byte {finding.position:,}{size}"


def _texts(texts: Mapping[str, Iterable[str]]) -> Html | None:
    parts: list[Html] = []
    for label, sayings in texts.items():
        told = [element("dd", said) for said in sayings if said]
        parts += [element("dt", label), *told] if told else []
    return element("dl", *parts, class_="texts") if parts else None


# --- by code ----------------------------------------------------------------------------------------------------------
def code_section(code: str, group: Code, links: Mapping[str, str]) -> Html:
    """One code: what it means, what brokers do, what mends it, and where it was found first."""
    kind = FINDING_TYPES.get(code)
    times = count_of(group.severities.total(), "finding")
    head = element("h3", badge(group.severity), " ", element("span", code, class_="mono"), " ", _small(times))
    body = [
        element("p", kind.meaning) if kind is not None and kind.meaning else None,
        _texts({"A broker": _often(group.actions), "Cure": _often(group.cures)}),
        element("ul", *(_code_place(name, finding, links) for name, finding in group.places), class_="places"),
        _more(group),
    ]
    return element("article", head, *body, id=f"c-{code}", class_=f"code {group.severity}")


def _small(text: str) -> Html:
    return element("span", text, class_="note")


def _often(texts: Counter[str]) -> list[str]:
    """What was said of it, the most often said first."""
    return [_cut(said) for said, _ in texts.most_common()]


def _cut(said: str) -> str:
    """As every code is shown, however large the page has become, none of its texts may be long."""
    return said if len(said) <= _SHORT else said[:_SHORT] + "..."


def _code_place(name: str, finding: Finding, links: Mapping[str, str]) -> Html:
    anchor = links.get(finding.path.rpartition("/")[0]) or links.get(finding.path)
    shown = element("a", _cut(name), href=f"#{anchor}") if anchor else _cut(name)
    return element("li", element("span", shown, class_="mono where"), " ", _cut(finding.message))


def _more(group: Code) -> Html | None:
    rest = group.severities.total() - len(group.places)
    return element("p", f"and {rest:,} more; --output ndjson has all of them", class_="note") if rest > 0 else None
