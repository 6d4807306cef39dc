"""Name, tags and note of a run, which its user may change at any time; they are not part of its configuration."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from gnnqlab.atomic import replacing
from gnnqlab.run.folder import read_json

__all__ = ["Annotation", "read_annotation"]

_NAME = "annotation.json"
_LONGEST = 80
"""Largest number of characters of a name or a tag, which are cells of tables."""


@dataclass(frozen=True)
class Annotation:
    """Words of a user about a run.

    Raises:
        ValueError: if a name or a tag is too long or has a line break, or a tag is empty or has a comma.
        TypeError: if the tags are one text.
    """

    name: str = ""
    tags: Sequence[str] = ()
    note: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.tags, str):
            raise TypeError(f"tags must be a list of texts, got {self.tags!r}; write [{self.tags!r}]")
        tags = tuple(dict.fromkeys(str(tag).strip() for tag in self.tags))  # each once
        object.__setattr__(self, "tags", tags)
        for kind, text in (("name", self.name), *(("tag", tag) for tag in tags)):
            if len(text) > _LONGEST or not text.isprintable():
                raise ValueError(
                    f"a {kind} must have at most {_LONGEST} printable characters, got {text!r}; use note= for more"
                )
        for tag in tags:
            if not tag or "," in tag:
                raise ValueError(f"a tag must be a text without a comma, got {tag!r}; give several tags as a list")

    def write(self, folder: Path) -> None:
        """Write the words into a run's folder."""
        with replacing(folder / _NAME) as path:
            path.write_text(json.dumps(asdict(self)))


def read_annotation(folder: Path) -> Annotation:
    """Return the words about the run of a folder; empty ones if there are none."""
    values = read_json(folder / _NAME) or {}
    try:
        tags = values.get("tags", ())
        return Annotation(str(values.get("name", "")), tuple(tags), str(values.get("note", "")))
    except (AttributeError, TypeError, ValueError):
        return Annotation()  # edited by hand: a list of runs must not fail
