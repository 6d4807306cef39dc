"""The contract of a part: members with defaults that other axes read, and members that a part must define.

A system is one part for each axis. Each axis has a base class, derived from :class:`AxisPart`, that names every member
which other axes read and gives it a default. A class without that base class gets the defaults by :func:`complete`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, ClassVar

__all__ = ["AxisPart", "Running", "complete", "missing", "not_predicted"]


class Running:
    """Members that whatever runs of a part on one worker has."""

    def adaptives(self, training: Any) -> Sequence[Any]:
        """Return what adapts between epochs; :func:`gnnqlab.adaptive.adaptives_of` calls it."""
        return ()


class AxisPart(Running):
    """Members that the parts of every axis have; some parts run themselves."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of members without a default; a part must define all of one group. ``System`` checks it."""
    wraps: ClassVar[bool] = False
    """Whether it wraps another part of its axis; ``gnnqlab.systems.replaced`` reads it."""
    steerable: ClassVar[tuple[str, ...]] = ()
    """Settings that may change while a run trains; the control of a run and the tuner read it."""
    renamed: ClassVar[dict[str, str]] = {}
    """Former name -> name of members that were renamed; a part that defines a former one is warned and served."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _take_former_names(cls, cls.renamed)

    @classmethod
    def needed(cls) -> str:
        """Return the groups of members that a part must define, in words; errors show them."""
        return ", or ".join(" and ".join(group) for group in cls.required)

    def around(self, present: Any, direction: str | None = None) -> Any:
        """Return this part around the present one of its axis, if it ``wraps``; ``systems.exact_at`` calls it."""
        return self

    def on_hosts(self, hosts: int) -> Any:
        """Return the part for a run on so many hosts of equally many consecutive workers; ``System`` calls it."""
        return self

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot have this part, or an empty text; ``System`` calls it."""
        return ""


def complete(part: Any, base: type) -> None:
    """Give the class of a part that does not derive from ``base`` the members of ``base`` that it lacks.

    Abstract members, which have no default, are left out.

    Args:
        part: an instance.
        base: base class of its axis.

    Example:
        >>> class Mine:
        ...     pass
        >>> mine = Mine()
        >>> complete(mine, AxisPart)
        >>> mine.steerable, mine.refuses(None)
        ((), '')
    """
    kind = type(part)
    if issubclass(kind, base):
        return
    _take_former_names(kind, _defaults(base).get("renamed", {}))
    for name, default in _defaults(base).items():
        if not getattr(default, "__isabstractmethod__", False) and not hasattr(part, name):
            setattr(kind, name, default)


def missing(part: Any, base: type[AxisPart]) -> tuple[str, ...]:
    """Return the members of the group that a part defines most of, without those that it defines.

    Example:
        >>> class Policy(AxisPart):
        ...     required = (("round", "widths"),)
        >>> class Even(Policy):
        ...     widths = (2, 4)
        >>> missing(Even(), Policy)
        ('round',)
    """
    kind: type = base  # a cached function takes what is hashable; mypy does not see that of type[AxisPart]
    defaults = _defaults(kind)
    lacks = [tuple(name for name in group if not _defines(part, name, defaults.get(name))) for group in base.required]
    return min(lacks, key=len, default=())


def not_predicted(axis: str, part: Any, method: str) -> ValueError:
    """Return the error of a part without a method that predictions need; defaults of such methods raise it."""
    return ValueError(
        f"{axis} must have the method {method}() to be predicted, got {type(part).__name__} without it; write it, "
        "or train a short run instead"
    )


def _take_former_names(kind: type, renamed: Mapping[str, str]) -> None:
    """Give a class the present names of members that it defines by their former names, with a warning."""
    for former, name in renamed.items():
        if former in vars(kind) and name not in vars(kind):
            text = f"{kind.__name__}.{former} is called {name} now; the former name is read until version 1.0"
            warnings.warn(text, DeprecationWarning, stacklevel=3)
            setattr(kind, name, vars(kind)[former])


def _defines(part: Any, name: str, default: Any) -> bool:
    """Return True if a part has a member that is not the placeholder of its base class."""
    own = getattr(part, "__dict__", {})
    member = own.get(name, next((vars(kind)[name] for kind in type(part).__mro__ if name in vars(kind)), None))
    return member is not None and member is not default


@cache
def _defaults(base: type) -> dict[str, Any]:
    """Return the public members of a base class and of those that it derives from."""
    found: dict[str, Any] = {}
    for kind in reversed(base.__mro__[:-1]):
        if kind.__module__ not in ("abc", "typing"):
            found |= {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    return found
