"""One test of many cases, for a rule that every module, page or text of the product keeps.

pytest spends some milliseconds on each case of `pytest.mark.parametrize`, which adds up over thousands of modules and
texts. Cases that are different inputs of a function still belong there, because each of them can be run alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

Case = TypeVar("Case")


def for_each(
    cases: Iterable[Case] | Callable[[], Iterable[Case]], name: Callable[[Case], object] = str
) -> Callable[[Callable[[Case], None]], Callable[[], None]]:
    """Return a decorator that makes one test of a check with one argument, the case.

    The test runs the check on every case. It fails where there is no case, and lists all cases that fail.

    cases: all cases, or a function that returns them when the test runs.
    name: what the list calls a case.
    """

    def decorate(check: Callable[[Case], None]) -> Callable[[], None]:
        def test() -> None:
            all_cases = list(cases() if callable(cases) else cases)
            assert all_cases, "there is no case"
            offences = {}
            for case in all_cases:
                try:
                    check(case)
                except AssertionError as error:
                    offences[str(name(case))] = str(error)
                except Exception as error:  # noqa: BLE001 - the other cases are checked too
                    offences[str(name(case))] = repr(error)
            listed = "\n".join(f"{case}: {what}" for case, what in offences.items())
            assert not offences, f"{len(offences)} of {len(all_cases)} cases fail\n{listed}"

        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__module__, test.__doc__ = check.__module__, check.__doc__
        return test

    return decorate
