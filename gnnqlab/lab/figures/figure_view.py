"""A figure on a page that shows at any time what it was last given.

Plotly's own ``FigureWidget`` sends 5 MB of script with every figure and then only what changes; changes that come while
the page takes the script in are lost, and where that takes longer than anywidget waits, so are all that follow. Here a
plain widget model holds the whole figure as text, and another Plotly's code, once for all figures of a kernel.

A page that is loaded again asks for all models in one message, and JupyterLab waits a few seconds for the answer. So
what is asked for is small: the code goes to pages that are there when its model is made, and to later ones that ask.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from plotly.graph_objects import Figure

__all__ = ["FigureView"]


class FigureView:
    """Shows one figure after another in the same place.

    Args:
        figure: the first one; nothing is shown before there is one.
        width: pixels, fewer where a page has less room; without a width a figure among controls takes less than it has.
        config: what Plotly calls so. Its bar of buttons is off unless asked for: it lies on titles, and one of its
            buttons sends the figure elsewhere; double-click and drag zoom without it.

    Example:
        >>> import plotly.graph_objects as go
        >>> view = FigureView(go.Figure(go.Scatter(y=[1, 2])))
        >>> view.change([{"y": [1, 2, 3]}])
        >>> view.data[0]["y"]
        [1, 2, 3]
    """

    def __init__(
        self, figure: Figure | None = None, *, width: int | None = None, config: dict[str, Any] | None = None
    ) -> None:
        classes = _classes()
        self._width, self._config = width, {"displayModeBar": False, **(config or {})}
        self._lock = threading.RLock()
        self._source = classes.Source()
        self._data: list[dict[str, Any]] = []
        self._layout: dict[str, Any] = {}
        self._send()
        self.widget = classes.Place(source=self._source.model_id, plotly=_plotly_code())
        """What stands among other widgets. Once it is made, pages take Plotly in, a second or two."""
        if figure is not None:
            self.show(figure)

    @property
    def data(self) -> list[dict[str, Any]]:
        """The traces shown, as Plotly's dictionaries."""
        return self._data

    @property
    def layout(self) -> dict[str, Any]:
        """The layout shown, as Plotly's dictionary."""
        return self._layout

    @property
    def spec(self) -> str:
        """What every page is given, one that comes late too: traces, layout and settings as JSON."""
        return str(self._source.spec)

    def show(self, figure: Figure) -> None:
        """Put a figure in the place of the one before."""
        plain = figure.to_plotly_json()
        with self._lock:
            self._data, self._layout = list(plain["data"]), dict(plain["layout"])
            if self._width is not None:
                self._layout["width"] = self._width
            self._send()

    def change(
        self,
        values: Sequence[dict[str, Any]],
        *,
        caption: str | None = None,
        axes: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Give every trace other values, and leave the rest as it is.

        Args:
            values: attributes and their new values, one dictionary a trace.
            caption: in words, for who cannot see it; the one before if not given.
            axes: new attributes of axes, by their names in the layout.

        Raises:
            ValueError: if there are not as many dictionaries as traces.
        """
        with self._lock:
            self._data = [{**trace, **new} for trace, new in zip(self._data, values, strict=True)]
            if caption is not None:
                self._layout = {**self._layout, "meta": {"caption": caption}}
            for name, new in (axes or {}).items():
                self._layout = {**self._layout, name: {**self._layout.get(name, {}), **new}}
            self._send()

    def on_click(self, told: Callable[[int, Any, Any], None]) -> None:
        """Call a function with trace, x and y of what is clicked, on any page."""
        self._source.observe(
            lambda change: told(change["new"]["trace"], change["new"]["x"], change["new"]["y"]), names="clicked"
        )

    def close(self) -> None:
        """Take the figure off every page."""
        self.widget.close()
        self._source.close()

    def _send(self) -> None:
        from plotly.io.json import to_json_plotly

        self._source.spec = to_json_plotly({"data": self._data, "layout": self._layout, "config": self._config})


class _Classes:
    """Widgets are classes of packages that take long to import."""

    def __init__(self) -> None:
        import anywidget
        import ipywidgets
        import traitlets

        class Source(ipywidgets.Widget):  # type: ignore[misc]
            spec = traitlets.Unicode().tag(sync=True)
            clicked = traitlets.Dict().tag(sync=True)

        class Code(ipywidgets.Widget):  # type: ignore[misc]
            code = traitlets.Bytes(allow_none=True).tag(sync=True)

            def __init__(self, code: bytes) -> None:
                self.missed = False  # whether a page may have come that was not given the code
                super().__init__(code=code)
                self.on_msg(lambda widget, content, buffers: self.tell())

            def tell(self) -> None:
                self.missed = False
                self.send_state("code")

            def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
                state: dict[str, Any] = super().get_state(key, drop_defaults)
                if key is not None or self.comm is None:
                    return state
                self.missed = True
                return {**state, "code": None}

        class Place(anywidget.AnyWidget):  # type: ignore[misc]
            _esm = "\n".join(_read(name) for name in ("find_model.js", "left.js", "figure_view.js"))
            source = traitlets.Unicode().tag(sync=True)
            plotly = traitlets.Dict().tag(sync=True)

        self.Source, self.Code, self.Place = Source, Code, Place
        self.lock = threading.Lock()
        self.code: Any = None


def _read(name: str) -> str:
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


@functools.cache
def _classes() -> _Classes:
    return _Classes()


def _plotly_code() -> dict[str, str]:
    """Which model holds Plotly's code, and of which version it is."""
    import plotly
    from plotly.offline import get_plotlyjs

    classes = _classes()
    with classes.lock:
        if classes.code is None or classes.code.comm is None:  # somebody may have closed all widgets
            classes.code = classes.Code(get_plotlyjs().encode())
        elif classes.code.missed:
            classes.code.tell()  # unasked: a cell may follow that keeps the kernel from answering
        return {"id": classes.code.model_id, "version": plotly.__version__}
