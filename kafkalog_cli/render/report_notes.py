"""What the page says about itself: its signs, how to read it, and what the check cannot see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kafkalog_cli.render.report_html import Html, element

if TYPE_CHECKING:
    from kafkalog_cli.render.report_data import RunFacts

__all__ = ["how_to_read", "legend", "not_checked"]

_SIGNS: Final = (
    ("whole", "segment, as wide as it is large"),
    ("active", "active segment, to which a broker appends"),
    ("many", "several whole segments"),
    ("hurt", "damaged place"),
    ("odd", "warning about the segment or its indexes (a square: error)"),
    ("gap", "offsets missing between segments"),
    ("over", "offsets in two segments"),
)
_UNSEEN: Final = {
    "headers": (
        "Level headers: no checksum was computed and no record decoded. A flipped bit inside of a batch is not "
        "noticed; --level records notices it."
    ),
    "checksums": (
        "Level checksums: records were not decoded. Contents that were written wrong under a good checksum are not "
        "noticed; --level records notices them."
    ),
}
_NEVER: Final = (
    (
        "What leaves no trace: whole batches cut off cleanly at the end of the log, batches that are missing from a "
        "compacted log, an entry that is missing from an offset index, which is sparse anyway."
    ),
    "Other replicas: this is one broker's disk. Whether a lost record still exists, only the other brokers know.",
    "The meaning of records: whether an application finds its data right.",
    "Anything that changed after its file had been read, where a broker was running.",
)
_READING: Final = (
    ("Damaged", "at least one finding of severity error: no healthy broker leaves this behind. Exit status 4."),
    ("Warnings", "odd or a risk, but possible in a healthy life: an open transaction, a gap in the offsets."),
    ("Clean", "nothing but normal life (severity info) was found."),
    (
        "At risk",
        (
            "bytes behind the recovery point of a broker that did not stop cleanly: it reads them again when it "
            "starts, and cuts the log at the first batch that is not whole."
        ),
    ),
    (
        "Map of segments",
        (
            "one block a segment, in the order of the offsets; red marks stand where the file is damaged, and lead to "
            "the finding. The numbers below are first offsets, as in the file names."
        ),
    ),
    (
        "Offsets over time",
        (
            "a box for each segment, from its first to its largest timestamp and its first to its last offset. In a "
            "healthy log they climb from the lower left to the upper right. The strip at the left shows which offsets "
            "are in a segment; red lines are offsets that may be lost."
        ),
    ),
)


def legend() -> Html:
    """The signs of the maps."""
    return element("ul", *(element("li", _sign(kind), " ", said) for kind, said in _SIGNS), class_="legend signs")


def _sign(kind: str) -> Html:
    shape = {
        "hurt": element("path", d="M3 1h10l-5 8zM6 10h4v6h-4z", class_="hurt"),
        "odd": element("circle", cx=8, cy=8, r=5, class_="odd ring"),
    }.get(kind)
    if shape is None:
        name = kind if kind in {"gap", "over"} else f"seg {'whole active' if kind == 'active' else kind}"
        shape = element("rect", x=1, y=2, width=20, height=12, rx=2, class_=name)
    return element("svg", shape, viewBox="0 0 22 16", width=22, height=16, aria_hidden="true", class_="sign")


def not_checked(run: RunFacts) -> Html:
    """What the check did not look at, and what it cannot see."""
    unseen = [_UNSEEN[run.level]] if run.level in _UNSEEN else []
    if run.selection:
        unseen.append(f"Everything but {run.selection}: it was not asked for.")
    items = [element("li", sentence) for sentence in (*unseen, *_NEVER)]
    return element("section", element("h2", "What was not checked", id="unseen"), element("ul", *items))


def how_to_read() -> Html:
    """The words and pictures of the page."""
    parts = [part for word, said in _READING for part in (element("dt", word), element("dd", said))]
    return element("section", element("h2", "How to read this", id="reading"), element("dl", *parts, class_="reading"))
