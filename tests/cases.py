"""Many small cases of one check as one test: a loop that names the case that fails."""

from __future__ import annotations

import functools
import inspect
import reprlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

_SHORT = reprlib.Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable], Callable]:
    """Call a test once for each case in turn; an error carries a note with the name of its case.

    Used in the place of ``pytest.mark.parametrize``, and stacked like it. Every case has a ``tmp_path``, a
    ``monkeypatch`` and a ``capsys`` to itself; other fixtures are shared.

    Args:
        names: the test's argument that a case fills, or several (``("bits", "columns")``, then a case is a tuple).
        cases: the cases.

    Raises:
        ValueError: if there is no case (such a test would check nothing), or the test takes no such argument.
        AssertionError: if a case is skipped after others ran: the report would not show that the rest did not run.
    """
    names, several = ((names,), False) if isinstance(names, str) else (tuple(names), True)
    cases = [tuple(case) if several else (case,) for case in cases]
    if not cases:
        raise ValueError(f"a loop over {', '.join(names)} needs at least one case, got none")

    def decorate(test: Callable) -> Callable:
        signature = inspect.signature(test)
        if not set(names) <= set(signature.parameters):
            raise ValueError(f"cases fill arguments of {test.__name__}{signature}, got {names}")

        @functools.wraps(test)
        def loop(*arguments: Any, **fixtures: Any) -> None:
            for number, case in enumerate(cases):
                with _own(fixtures, number) as own, _named(names, case, number):
                    test(*arguments, **own, **dict(zip(names, case, strict=True)))

        rest = [parameter for name, parameter in signature.parameters.items() if name not in names]
        loop.__signature__ = signature.replace(parameters=rest)  # pytest reads the fixtures from this signature
        return loop

    return decorate


def one_case(test: Callable) -> Callable:
    """Return a test without its loops, to be called with a case."""
    return inspect.unwrap(test)


@contextmanager
def _named(names: tuple[str, ...], case: tuple, number: int) -> Iterator[None]:
    try:
        yield
    except BaseException as error:
        error.add_note("the case: " + ", ".join(f"{name}={_SHORT.repr(value)}" for name, value in zip(names, case)))
        if number and isinstance(error, pytest.skip.Exception):
            raise AssertionError(f"a case in the middle of a loop cannot be skipped: {error}") from error
        raise


@contextmanager
def _own(fixtures: dict[str, Any], number: int) -> Iterator[dict[str, Any]]:
    """Yield the fixtures with those replaced that each case needs for itself."""
    own = dict(fixtures)
    if "tmp_path" in own:
        own["tmp_path"] = own["tmp_path"] / str(number)
        own["tmp_path"].mkdir()
    if "capsys" in own:
        own["capsys"].readouterr()
    if "monkeypatch" not in own:
        yield own
        return
    with pytest.MonkeyPatch.context() as own["monkeypatch"]:
        yield own
