"""What was said to make a system: its recipe's name and the settings given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["Said"]


@dataclass(frozen=True)
class Said:
    """A recipe by name, with the settings it was given; its defaults are its own affair.

    Example:
        >>> Said.from_json(Said("random-bits", {"among": (2, 8)}).to_json())
        Said(name='random-bits', settings={'among': (2, 8)})
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any] | None:
        """Return ``{"name": ..., its settings}``; ``None`` where a setting is nothing that JSON can hold."""
        if not all(_is_plain(value) for value in self.settings.values()):
            return None
        return {"name": self.name, **self.settings}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Return what :meth:`to_json` wrote; lists become tuples."""
        settings = {key: tuple(given) if isinstance(given, list) else given for key, given in value.items()}
        return cls(str(settings.pop("name")), settings)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float | str)
