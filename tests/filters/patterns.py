"""Random regular expressions over bytes, and texts of few letters in which they often match."""

from __future__ import annotations

import re

from hypothesis import assume
from hypothesis import strategies as st

__all__ = ["TEXTS", "patterns"]

LETTERS = (b"a", b"b", b"A", b"B", b"0", b" ", b"\n", b"\xc3\xbc", b"\xff", b"\x00", b"@", b"[")
TEXTS = st.lists(st.sampled_from(LETTERS), max_size=24).map(b"".join)
ATOMS = st.one_of(
    st.sampled_from(LETTERS).map(re.escape),
    st.sampled_from(
        [rb"[ab]", rb"[^a]", rb"[a-b0]", rb"\d", rb"\W", rb"\s", rb"[\w ]", rb"[^\S0]", rb".", rb"[A-Z]{2}"]
    ),
    st.sampled_from([rb"^", rb"$", rb"\b", rb"\B", rb"\A", rb"\Z", b""]),
)


def _wider(inner: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=4).map(b"".join),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: b"(?:" + b"|".join(parts) + b")"),
        st.tuples(inner, st.sampled_from([b"*", b"+", b"?", b"{2}", b"{1,2}", b"*?", b"++", b"{0}", b"{3,}"])).map(
            lambda parts: b"(?:" + parts[0] + b")" + parts[1]
        ),
        st.tuples(st.sampled_from([b"(", b"(?>", b"(?=", b"(?!", b"(?i:", b"(?s:", b"(?-i:", b"(?m:"]), inner).map(
            lambda parts: parts[0] + parts[1] + b")"
        ),
        st.sampled_from(LETTERS).map(lambda letter: b"(?<=" + re.escape(letter) + b")"),
        st.sampled_from(LETTERS).map(lambda letter: b"(?<!" + re.escape(letter) + b")"),
        inner.map(lambda part: b"(" + part + rb")\1"),
        inner.map(lambda part: b"(" + part + b")?(?(1)b|a)"),
    )


@st.composite
def patterns(draw: st.DrawFn) -> re.Pattern[bytes]:
    """A pattern of Python, with or without flags."""
    text = draw(st.recursive(ATOMS, _wider, max_leaves=8))
    flags = draw(st.sampled_from([re.NOFLAG, re.NOFLAG, re.IGNORECASE, re.DOTALL, re.MULTILINE]))
    try:
        return re.compile(text, flags)
    except (re.error, FutureWarning):  # such as a group that is defined twice
        assume(condition=False)
        raise
