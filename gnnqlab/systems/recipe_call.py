"""The call of a registered recipe, stored with the system that it built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

__all__ = ["RecipeCall"]


@dataclass(frozen=True)
class RecipeCall:
    """Call of a recipe: its name and the settings passed, without defaults.

    Example:
        >>> RecipeCall.from_json(RecipeCall("random-bits", {"bit_widths": (2, 8)}).to_json())
        RecipeCall(name='random-bits', settings={'bit_widths': (2, 8)})
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any] | None:
        """Convert to ``{"name": ..., its settings}``; ``None`` if a setting cannot be stored as JSON."""
        if not all(_is_plain(value) for value in self.settings.values()):
            return None
        return {"name": self.name, **self.settings}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from the result of :meth:`to_json`; lists become tuples."""
        settings = {key: tuple(each) if isinstance(each, list) else each for key, each in value.items()}
        return cls(str(settings.pop("name")), settings)


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float | str)
