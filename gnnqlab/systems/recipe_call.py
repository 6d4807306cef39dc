"""The call of a registered recipe, stored with the system that it built."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Self

from gnnqlab.message.direction import of_direction

__all__ = ["RecipeCall"]


@dataclass(frozen=True)
class RecipeCall:
    """Call of a recipe: its name and the settings passed, without defaults and without those of replaced parts.

    Example:
        >>> RecipeCall.from_json(RecipeCall("random-bits", {"bit_widths": (2, 8)}).to_json())
        RecipeCall(name='random-bits', settings={'bit_widths': (2, 8)}, replaced=())
    """

    name: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    replaced: tuple[str, ...] = ()
    """Axes whose parts were replaced after the call."""

    def with_replaced(self, parts: Mapping[str, tuple[Any, Any]]) -> Self:
        """Return the call after a replacement, without the settings that only the former parts had.

        Args:
            parts: axis -> former part and new part.

        Example:
            >>> from gnnqlab.bits.policy import Fixed, UniformRandom
            >>> call = RecipeCall("random-bits", {"bit_widths": (2, 8)})
            >>> call.with_replaced({"bits": (UniformRandom(), Fixed(bits=4))})
            RecipeCall(name='random-bits', settings={}, replaced=('bits',))
        """
        settings = {
            name: value
            for name, value in self.settings.items()
            if not any(name in _fields(old) and _fields(new).get(name) != value for old, new in parts.values())
        }
        return replace(self, settings=settings, replaced=tuple(dict.fromkeys([*self.replaced, *parts])))

    def to_json(self) -> dict[str, Any] | None:
        """Convert to ``{"name": ..., its settings}``, with replaced axes; ``None`` if a setting cannot be JSON."""
        if not all(_is_plain(value) for value in self.settings.values()):
            return None
        return {"name": self.name, **self.settings, **({"replaced": self.replaced} if self.replaced else {})}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """Build from the result of :meth:`to_json`; lists become tuples."""
        settings = {key: tuple(each) if isinstance(each, list) else each for key, each in value.items()}
        return cls(str(settings.pop("name")), settings, settings.pop("replaced", ()))


def _fields(part: Any) -> dict[str, Any]:
    """Return the settings of a part; of a pair those of the forward part, which recipes set."""
    part = of_direction(part, "forward")
    return {each.name: vars(part)[each.name] for each in fields(part)} if is_dataclass(part) else {}


def _is_plain(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return all(_is_plain(each) for each in value)
    return value is None or isinstance(value, bool | int | float | str)
