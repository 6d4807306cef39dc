"""The tuner on the screen: controls, one figure, two lines of words. All it knows is in the model and the session."""

from __future__ import annotations

import html
import threading
import time
from typing import Any

from gnnqlab.lab.figures.controls import PAGE, alert, make_access, tipped
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.figures.updates import Updater
from gnnqlab.lab.tuner.controls import Choice, Number, control_of
from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.session import TunerSession
from gnnqlab.lab.tuner.settings import LINKS, PLACE, PRESETS, Knob, knobs_of
from gnnqlab.lab.tuner.tiles import tiles_html
from gnnqlab.lab.tuner.views import Shown, draw_tuner, values
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.systems.system import SYSTEMS
from gnnqlab.tune.probe import LAMS

__all__ = ["TunerPanel"]

_LIVE_S, _FIGURE_S = 0.4, 1.0
"""Seconds between two looks at a run that trains, and between two drawings of its epochs: it needs the processors."""
_REST_S = 0.4
"""A knob at rest for so long is passed on to the run; a probed place is timed after three times that."""
_AS_SET = "as set"
_TRAIN = "Launch a run with these settings, in processes of its own"
_SYSTEM = Knob(label="System", help="How workers exchange rows: which, when and in how many bits", kind="choice")


class TunerPanel:
    """Controls round a model and a session; every change is drawn in one place, by one thread.

    Args:
        model: the knobs.
        session: what Train and Stop do.
        measure: whether launched runs are timed in the background, once for each place.
    """

    def __init__(self, model: TunerModel, session: TunerSession, *, measure: bool = True) -> None:
        import ipywidgets as widgets

        self.model, self.session = model, session
        self._measure = measure
        self._lock = threading.RLock()
        self._turned_at, self._drawn_at = time.monotonic(), 0.0
        self._steered = self._timing = False
        self._trouble = self._starting = ""
        self.updater = Updater(self.draw)
        self._make_controls()
        self.words = widgets.HTML('<p role="status">The graph is being probed: a few epochs in this process …</p>')
        self.title, self.status, self.code = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.title.value = "<b>Tuner</b>"
        self.code.layout.display = "none"
        self._shown = Shown()
        self.access = make_access()
        self.figure = FigureView(draw_tuner(self._shown), width=PAGE)
        self.access.observe(self._recolour, names="dark")
        right = [self.controls[name].widget for name in ("workers", "layers", "hidden", "model", "link")]
        buttons = widgets.HBox([self.train, self.stop, self.reset, self.show_code])
        # Knobs beside the figure where the page has the room, so that both are in view; above it on a narrow one.
        knobs = widgets.HBox([self.own, widgets.VBox(right)], layout={"flex_flow": "row wrap"})
        left = widgets.VBox([buttons, self.status, knobs], layout={"flex": "1 1 400px", "min_width": "0px"})
        shown = widgets.VBox([self.words, self.figure.widget], layout={"flex": "100 1 620px", "min_width": "0px"})
        shown.add_class("gnnqlab-room")
        whole = widgets.HBox([left, shown], layout={"flex_flow": "row wrap"})
        self.box = widgets.VBox([self.title, whole, self.code, self.access])
        self._say()
        self.updater.ask()  # in a thread: controls do not wait for a few traced epochs

    # -- controls -------------------------------------------------------------------------------------------------

    def _make_controls(self) -> None:
        import ipywidgets as widgets

        now, turned = self.model.settings, self._turned

        def place(name: str, step: float = 1) -> Number:
            return Number(name, PLACE[name], now.value(name), turned, step=step, at_once=False)

        self._place_controls: dict[str, Any] = {
            "workers": place("workers"),
            "layers": place("layers"),
            "hidden": place("hidden", step=8),
            "model": Choice("model", PLACE["model"], now.model, turned, sorted(MODELS)),
            "link": Choice("link", PLACE["link"], now.link, turned, LINKS),
            "system": Choice("system", _SYSTEM, now.system, turned, sorted(SYSTEMS)),
        }
        self._own: dict[str, Any] = {}
        self.own = widgets.VBox()
        """The system, and the controls of what its recipe can be told."""
        self.preset = widgets.Dropdown(
            options=[_AS_SET, *PRESETS], description="Preset", tooltip="Take λ, group size, period and widths at once",
            layout={"width": "300px"}, style={"description_width": "88px"},
        )  # fmt: skip
        self.preset.observe(self._take_preset, names="value")
        self._presets = tipped(self.preset)
        self._make_own()
        self.train = _button("Train", "play", _TRAIN)
        self.stop = _button("Stop", "stop", "End the run and all its processes")
        self.reset = _button("Reset", "undo", "Turn every knob back to where the tuner began")
        self.show_code = _button("Code", "code", "Show or hide the lines of Python that do the same")
        self.train.on_click(lambda button: self._in_background(self.session.train, "A run is being launched …"))
        self.stop.on_click(lambda button: self._in_background(self.session.stop, "The run is being stopped …"))
        self.reset.on_click(lambda button: self._move(self.model.reset))
        self.show_code.on_click(self._toggle_code)

    def _make_own(self) -> None:
        """Put the controls of the system that is chosen now in the place of those before."""
        now, before = self.model.settings, self._own
        self._of = now.system
        self._own = {
            name: control_of(name, knob, now.value(name), self._turned) for name, knob in knobs_of(self._of).items()
        }
        self.controls: dict[str, Any] = {**self._own, **self._place_controls}
        """Every control that stands on the screen, by the name of its knob."""
        own = [control.widget for control in (self._place_controls["system"], *self._own.values())]
        self.own.children = [*own, *([self._presets] if now.assigns else [])]
        for control in before.values():
            _close(control.widget)

    def _turned(self, name: str, value: Any) -> None:
        with self._lock:
            try:
                self.model.choose(**{name: value})
            except (TypeError, ValueError) as error:
                self.controls[name].refuse(str(error))
                self._say()
                return
            self._moved()

    def _take_preset(self, change: Any) -> None:
        if change["new"] != _AS_SET:
            self._move(lambda: self.model.preset(change["new"]))

    def _move(self, how: Any) -> None:
        with self._lock:
            how()
            self._moved()

    def follow(self) -> None:
        """Show where the model stands after it was turned elsewhere."""
        with self._lock:
            self._moved()

    def _moved(self) -> None:
        """All controls stand where the model does; the rest follows from the updater."""
        now = self.model.settings
        if now.system != self._of:
            self._make_own()
        for name, control in self.controls.items():
            control.refuse("")
            control.show(getattr(now, name))
        fitting = (
            name
            for name, knobs in PRESETS.items()
            if now.assigns and all(getattr(now, key) == at for key, at in knobs.items())
        )
        self.preset.value = next(fitting, _AS_SET)
        self._turned_at, self._steered, self._trouble = time.monotonic(), False, ""
        self.updater.ask()

    def _toggle_code(self, button: Any) -> None:
        self.code.layout.display = "none" if self.code.layout.display is None else None
        self.updater.ask()

    def _in_background(self, what: Any, words: str) -> None:
        """Launching and stopping take seconds; a callback returns at once, and says what goes on."""

        def work() -> None:
            try:
                what()
            except Exception as error:  # the reason belongs on the screen, whatever it is
                self._trouble = str(error)
            self._starting = ""
            self.updater.ask()

        self._trouble, self._starting = "", words
        self._say()
        threading.Thread(target=work, daemon=True).start()

    def _recolour(self, change: Any) -> None:
        with self._lock:
            self.figure.show(draw_tuner(self._shown, dark=self.access.dark))

    # -- drawing --------------------------------------------------------------------------------------------------

    def draw(self) -> float | None:
        """Bring the screen up to date; returns when to look again, ``None`` if nothing moves by itself."""
        try:
            return self._draw()
        except Exception as error:  # a thread has nobody else to tell
            self._trouble = f"{type(error).__name__}: {error}"
            self._say()
            return None

    def _draw(self) -> float | None:
        if self._only_words():
            self._say()
            return self._look_after()
        settings = self.model.settings
        if not self.model.probed:
            self.words.value = '<p role="status">A few epochs are traced in this process …</p>'
        shown = Shown.of(self.model, measured=self.session.measured, front=self.model.has_front)
        if self.model.settings is not settings:
            self.updater.ask()  # turned meanwhile
            return None
        self._show(shown)
        for lam in LAMS:
            if self.updater.asked or self.model.has_front:
                break
            self.model.at(lam)  # one at a time, so that the next move need not wait for the whole front
        else:
            self._show(Shown.of(self.model, measured=self.session.measured))
        if not self.updater.asked and not self.model.has_aging:
            self.model.stale_loss  # noqa: B018  (found once, said from then on)
            self._say()
        return self._look_after()

    def _only_words(self) -> bool:
        """Whether nothing was turned, and the epochs of the run were drawn a moment ago."""
        now = time.monotonic()
        again = self.session.under_way and self._drawn_at > self._turned_at and now - self._drawn_at < _FIGURE_S
        self._drawn_at = self._drawn_at if again else now
        return again

    def _show(self, shown: Shown) -> None:
        with self._lock:
            self._shown = shown
            self.figure.change(values(shown), caption=shown.caption)
            self._say()

    def _say(self) -> None:
        """Words and buttons; they cost next to nothing."""
        live = self.session.under_way
        refused = [control.knob.label for control in self.controls.values() if control.refused]
        self.train.disabled = live or bool(self._starting or refused)
        self.train.tooltip = f"First correct {', '.join(refused)}" if refused else _TRAIN
        self.stop.disabled = not live
        if self.model.probed:
            self.title.value = f"<b>{html.escape(self.model.title)}</b>"
            self.words.value = tiles_html(self.model)
        trouble = f"<br>{alert(self._trouble)}" if self._trouble else ""
        self.status.value = _line(self._starting or self.session.sentence, trouble)
        if self.code.layout.display is None:
            self.code.value = f"<pre tabindex='0' aria-label='Python'>{html.escape(self.model.to_code())}</pre>"

    def _look_after(self) -> float | None:
        """Pass knobs at rest on to the run, time a place that stays; returns when to look again."""
        rested = time.monotonic() - self._turned_at
        if self.session.under_way:
            if not self._steered and rested >= _REST_S:
                self._steered = True
                self.session.steer()
            return _LIVE_S
        if self._measure and not self.model.timed and not self._timing:
            if rested < 3 * _REST_S:
                return 3 * _REST_S - rested + 0.01
            self._timing = True
            threading.Thread(target=self._time_place, daemon=True).start()
        return None

    def _time_place(self) -> None:
        try:
            self.session.time_place()
        except Exception as error:
            self._trouble, self._measure = f"timing launched runs failed: {error}", False
        finally:
            self._timing = False
        self.updater.ask()


def _close(widget: Any) -> None:
    """Take a widget and all in it off every page."""
    for child in getattr(widget, "children", ()):
        _close(child)
    widget.close()


def _button(name: str, icon: str, tooltip: str) -> Any:
    import ipywidgets as widgets

    return widgets.Button(description=name, icon=icon, tooltip=tooltip, layout={"width": "100px"})


def _line(words: str, *more: str) -> str:
    style = "max-width:70em;margin:4px 2px;line-height:1.5"
    return f'<p role="status" style="{style}">{html.escape(words)}{"".join(more)}</p>'
