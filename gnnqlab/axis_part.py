"""Interface of a part: members with defaults that other axes read, and members that a part must define.

A system has one part per axis. Each axis has a base class, derived from :class:`AxisPart`, that declares every member
read by other axes, with a default. A class without that base class gets the defaults from :func:`complete`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import Any, ClassVar

__all__ = ["AxisPart", "RenamedMembers", "Running", "complete", "missing", "not_predicted"]


def _take_former_names(kind: type, present_names: Mapping[str, str]) -> None:
    """Give a class the present names of members that it defines by their former names, with a warning."""
    for former_name, name in present_names.items():
        if former_name in vars(kind) and name not in vars(kind):  # own members only, not inherited ones
            text = f"{kind.__name__}.{former_name} is called {name} now; the former name is read until version 1.0"
            warnings.warn(text, DeprecationWarning, stacklevel=3)
            setattr(kind, name, vars(kind)[former_name])


class RenamedMembers:
    """Base class whose subclasses may define a member by its former name."""

    renamed: ClassVar[dict[str, str]] = {}
    """Former name -> present name of a member; a part that defines the former one gets a warning and both."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        _take_former_names(cls, cls.renamed)  # at the definition, so that the warning names its line


class Running:
    """Members of every component that is built from a part on one worker."""

    def adaptives(self, training: Any) -> Sequence[Any]:
        """Return the callbacks of the component; called by :func:`gnnqlab.adaptive.adaptives_of`."""
        return ()


class AxisPart(Running, RenamedMembers):
    """Members of the parts of every axis; some parts are their own component."""

    required: ClassVar[tuple[tuple[str, ...], ...]] = ()
    """Groups of members without a default; a part must define all of one group. Checked by ``System``."""
    wraps: ClassVar[bool] = False
    """True if it wraps another part of its axis, its setting ``inner``; read by ``gnnqlab.systems.replaced``."""
    steerable: ClassVar[tuple[str, ...]] = ()
    """Settings that may change while a run trains; read by the control of a run and the tuner."""
    former_defaults: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """Values of settings that earlier versions did not have; read by ``gnnqlab.systems.parts`` for their files."""

    @classmethod
    def needed(cls) -> str:
        """Return the groups of members that a part must define, as text for errors."""
        return ", or ".join(" and ".join(group) for group in cls.required)

    def wrap(self, present: Any, direction: str | None = None) -> Any:
        """Return this part wrapped around the present one of its axis, if it ``wraps``; for ``systems.exact_at``."""
        return self

    def on_hosts(self, hosts: int) -> Any:
        """Return the part for a run on ``hosts`` hosts with equal numbers of consecutive workers; for ``System``."""
        return self

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot have this part, or an empty text; for ``System``."""
        return ""


def complete(part: Any, base: type) -> None:
    """Add missing members of ``base`` to the class of a part that does not derive from it.

    Abstract members, which have no default, are not added.

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
    # Former names first: a default under the present name would hide the part's own member.
    _take_former_names(kind, _defaults(base).get("renamed", {}))
    for name, default in _defaults(base).items():
        if not getattr(default, "__isabstractmethod__", False) and not hasattr(part, name):
            setattr(kind, name, default)  # on the class, so that all instances have it


def missing(part: Any, base: type[AxisPart]) -> tuple[str, ...]:
    """Return the undefined members of the group of which a part defines most.

    Example:
        >>> class Policy(AxisPart):
        ...     required = (("version", "widths"),)
        >>> class Even(Policy):
        ...     widths = (2, 4)
        >>> missing(Even(), Policy)
        ('version',)
    """
    kind: type = base  # arguments of a cached function must be hashable; mypy does not infer that of type[AxisPart]
    defaults = _defaults(kind)
    groups = [tuple(name for name in group if not _defines(part, name, defaults.get(name))) for group in base.required]
    return min(groups, key=len, default=())  # the group that the part nearly defines


def not_predicted(axis: str, part: Any, method: str) -> ValueError:
    """Return the error for a part without a method that predictions need; raised by the defaults of such methods."""
    return ValueError(
        f"{axis} must have the method {method}() for predictions, got {type(part).__name__} without it; add it, "
        "or train a short run instead"
    )


def _defines(part: Any, name: str, default: Any) -> bool:
    """Return True if a part has a member that is not the placeholder of its base class."""
    # Looked up in instance and classes, because getattr would run properties.
    attributes = getattr(part, "__dict__", {})
    member = attributes.get(name, next((vars(kind)[name] for kind in type(part).__mro__ if name in vars(kind)), None))
    return member is not None and member is not default


@cache
def _defaults(base: type) -> dict[str, Any]:
    """Return the public members of a base class and its own base classes."""
    members: dict[str, Any] = {}
    for kind in reversed(base.__mro__[:-1]):  # without object; bases first, so that derived classes override
        if kind.__module__ not in ("abc", "typing"):
            members |= {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    return members
