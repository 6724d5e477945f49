"""Tuples with named fields are those of `typing`, made without compiling the types of their fields."""

from __future__ import annotations

import pickle
from typing import get_type_hints

import pytest

from kafkalog_core.structs import NamedTuple


class Place(NamedTuple):
    """Where something is."""

    position: int
    names: tuple[str, ...] = ()
    next_place: Place | None = None

    @property
    def is_first(self) -> bool:
        return self.position == 0

    @classmethod
    def of(cls, *names: str) -> Place:
        return cls(0, names)


class Named(Place):
    """A class that is derived."""


class Outer:
    class Inner(NamedTuple):
        number: int


def test_it_is_a_tuple_with_the_fields_of_its_body() -> None:
    place = Place(3, next_place=Place.of("a"))
    assert isinstance(place, tuple)
    assert place == (3, (), (0, ("a",), None))
    assert (place.position, place.names, place.is_first) == (3, (), False)
    assert Place.of("a", "b").is_first
    assert Place._fields == ("position", "names", "next_place")
    assert Place._field_defaults == {"names": (), "next_place": None}
    assert place._replace(position=4) == (4, (), place.next_place)
    assert repr(Place(1)) == "Place(position=1, names=(), next_place=None)"
    assert hash(Place(1)) == hash((1, (), None))


def test_it_has_the_name_and_the_text_of_its_class() -> None:
    assert (Place.__name__, Place.__module__, Place.__doc__) == ("Place", __name__, "Where something is.")
    assert get_type_hints(Place) == {"position": int, "names": tuple[str, ...], "next_place": Place | None}
    assert pickle.loads(pickle.dumps(Place(1, ("a",)))) == Place(1, ("a",))  # noqa: S301 -- ours
    assert type(Named(1)) is Named
    assert Outer.Inner.__qualname__ == "Outer.Inner"
    assert pickle.loads(pickle.dumps(Outer.Inner(1))) == Outer.Inner(1)  # noqa: S301 -- ours
    assert Named(1) == Place(1)


def test_wrong_fields_are_refused() -> None:
    with pytest.raises(TypeError):
        Place()  # type: ignore[call-arg]
    with pytest.raises(TypeError):
        Place(1, other=2)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        Place(1).position = 2  # type: ignore[misc]
