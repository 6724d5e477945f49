"""Texts that are cut to a column: as rich measures and cuts them, which looks at the whole of each."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from rich.cells import cell_len, set_cell_size

from kafkalog_cli.render.grid import fitted

ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
LETTERS = st.sampled_from("aZ é~ßЖ漢字한😀\u0301\u0300\u200d\ufe0f❤👩x")


@example(text="\U000e0000漢", room=1)  # a character of no width first, and room for the ellipsis only
@example(text="\u0301ab", room=1)
@given(text=st.text(LETTERS | st.characters(exclude_categories=["Cs", "Cc"]), max_size=40), room=st.integers(1, 30))
def test_a_text_is_cut_as_rich_cuts_it(text: str, room: int) -> None:
    size = cell_len(text)
    expected = (text, size) if size <= room else (set_cell_size(text, room - 1) + ELLIPSIS, room)
    assert fitted(text, room) == expected
    assert cell_len(fitted(text, room)[0]) <= room


def test_the_characters_taken_as_narrow_take_one_cell() -> None:
    for number in (*range(0x20, 0x7F), *range(0xA0, 0x500)):
        character = chr(number)
        text = character * 3
        assert fitted(text, 10) == (text, cell_len(text)), hex(number)
