"""Output of a call in a notebook: HTML where it is shown, plain text elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Page", "show"]


@dataclass(frozen=True)
class Page:
    """Text with its HTML, for the end of a notebook cell.

    Example:
        >>> Page("3 of 9", "<b>3</b> of 9")
        3 of 9
    """

    text: str
    """Plain text, for consoles and pages without HTML."""
    html: str

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str:
        return self.html


def show(page: Page) -> None:
    """Show a page at once, in the middle of a cell or a function.

    Example:
        >>> show(Page("3 of 9", "<b>3</b> of 9"))
        3 of 9
    """
    try:
        from IPython.display import display
    except ImportError:  # IPython comes with the extra "lab"
        print(page)
    else:
        display(page)
