"""Figure widget that always shows its latest figure.

Plotly's own ``FigureWidget`` sends 5 MB of script with every figure and then only changes. Changes are lost that arrive
while the page loads the script and, if this takes longer than anywidget waits, all later ones too. Here a plain widget
model holds the whole figure as text, and another one Plotly's code, once for all figures of a kernel.

A reloaded page requests the state of all models in one message, and JupyterLab waits a few seconds for the reply. To
keep the reply small, the code goes to pages that are open when its model is created, and to later ones on request.
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
    """Widget that shows one figure after another in the same place.

    Args:
        figure: the first figure; without it the widget is empty at first.
        width: pixels, fewer on a narrower page; without a width a figure among controls does not fill the page.
        config: Plotly's ``config``. Its mode bar is off by default, because it covers titles, and one of its buttons
            uploads the figure; double-click and drag zoom without it.

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
        self._lock = threading.RLock()  # updates come from threads and from callbacks of the page
        self._source = classes.Source()
        self._data: list[dict[str, Any]] = []
        self._layout: dict[str, Any] = {}
        self._send()
        self.widget = classes.Place(source=self._source.model_id, plotly=_plotly_code())
        """Widget to place among others. Once it exists, pages load Plotly, which takes a second or two."""
        if figure is not None:
            self.show(figure)

    @property
    def data(self) -> list[dict[str, Any]]:
        """Traces shown, as Plotly's dictionaries."""
        return self._data

    @property
    def layout(self) -> dict[str, Any]:
        """Layout shown, as Plotly's dictionary."""
        return self._layout

    @property
    def spec(self) -> str:
        """Traces, layout and ``config`` as JSON, as sent to every page."""
        return str(self._source.spec)

    def show(self, figure: Figure) -> None:
        """Replace the figure by another one."""
        figure_json = figure.to_plotly_json()
        with self._lock:
            self._data, self._layout = list(figure_json["data"]), dict(figure_json["layout"])
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
        """Update values of all traces, and keep everything else.

        Args:
            values: attributes and their new values, one dictionary per trace.
            caption: description for screen readers; unchanged if not given.
            axes: new attributes of axes, by their names in the layout.

        Raises:
            ValueError: if the numbers of dictionaries and traces differ.
        """
        with self._lock:
            # New dictionaries: readers of the old list see a consistent figure.
            self._data = [{**trace, **attributes} for trace, attributes in zip(self._data, values, strict=True)]
            if caption is not None:
                self._layout = {**self._layout, "meta": {"caption": caption}}
            for name, attributes in (axes or {}).items():
                self._layout = {**self._layout, name: {**self._layout.get(name, {}), **attributes}}
            self._send()

    def on_click(self, callback: Callable[[int, Any, Any], None]) -> None:
        """Call a function with trace, x and y of every click, on any page."""
        self._source.observe(
            lambda change: callback(change["new"]["trace"], change["new"]["x"], change["new"]["y"]), names="clicked"
        )

    def close(self) -> None:
        """Remove the figure from every page."""
        self.widget.close()
        self._source.close()

    def _send(self) -> None:
        from plotly.io.json import to_json_plotly

        self._source.spec = to_json_plotly({"data": self._data, "layout": self._layout, "config": self._config})


class _Classes:
    """Classes of widgets, created at first use because their packages take long to import."""

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
                self.may_lack_code = False  # True if a page may have been opened without the code
                super().__init__(code=code)
                self.on_msg(lambda widget, content, buffers: self.send_code())

            def send_code(self) -> None:
                self.may_lack_code = False
                self.send_state("code")

            def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
                state: dict[str, Any] = super().get_state(key, drop_defaults)
                if key is not None or self.comm is None:  # one attribute, or the creation of the model
                    return state
                self.may_lack_code = True
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
    """Return the id of the model that holds Plotly's code, and Plotly's version."""
    import plotly
    from plotly.offline import get_plotlyjs

    classes = _classes()
    with classes.lock:
        if classes.code is None or classes.code.comm is None:  # none yet, or all widgets were closed
            classes.code = classes.Code(get_plotlyjs().encode())
        elif classes.code.may_lack_code:
            classes.code.send_code()  # without a request: a later cell may keep the kernel from replying
        return {"id": classes.code.model_id, "version": plotly.__version__}
