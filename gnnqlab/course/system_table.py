"""The systems by the axes along which they differ, read from the registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import table_html

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["SystemTable", "systems_by_axes"]


@dataclass(frozen=True)
class SystemTable:
    """A line a system, a column an axis; what differs from the first system stands in bold."""

    frame: DataFrame

    def __repr__(self) -> str:
        return str(self.frame.to_string())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        import html
        import re

        first = self.frame.iloc[0]
        page = table_html(self.frame, caption="Systems as choices along the axes; bold: unlike the first")
        for axis in self.frame.columns[:-1]:
            for choice in set(self.frame[axis]) - {first[axis]}:
                cell = html.escape(choice)
                page = re.sub(f"(<td[^>]*>){re.escape(cell)}</td>", rf"\1<b>{cell}</b></td>", page)
        return {"text/plain": repr(self), "text/html": re.sub("``(.+?)``", r"<code>\1</code>", page)}


def systems_by_axes() -> SystemTable:
    """Return every registered system with its choice along each axis; axes on which all agree are left out.

    Example:
        >>> table = systems_by_axes().frame
        >>> table.loc["vanilla", "codec"], table.loc["adaqp", "schedule"]
        ('float32', 'overlapped')
    """
    import pandas as pd

    from gnnqlab.systems.system import SYSTEMS

    lines = {}
    for name, recipe in SYSTEMS.items():
        choices = {axis: part["name"] for axis, part in recipe().to_json().items() if isinstance(part, dict)}
        about = (recipe.__doc__ or "").partition("\n")[0].partition(": ")
        lines[name] = {**choices, "in words": (about[2] or about[0]).rstrip(".")}
    frame = pd.DataFrame.from_dict(lines, orient="index")
    frame.index.name = "system"
    differing = [axis for axis in frame.columns if axis == "in words" or frame[axis].nunique() > 1]
    first = ["vanilla", *[name for name in frame.index if name != "vanilla"]]
    return SystemTable(frame.loc[first, differing])
