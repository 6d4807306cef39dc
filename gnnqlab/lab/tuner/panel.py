"""Panel of the tuner: controls, one figure and status lines. Its state is in the model and the session."""

from __future__ import annotations

import html
import shutil
import threading
import time
from typing import Any

from gnnqlab.lab.figures.controls import PAGE, TABLE, alert, make_access, row_with_tip
from gnnqlab.lab.figures.figure_view import FigureView
from gnnqlab.lab.figures.updates import Updater
from gnnqlab.lab.tuner.controls import ChoiceControl, Number, OpenChoice, control_of
from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.lab.tuner.session import TunerSession
from gnnqlab.lab.tuner.settings import LINKS, PLACE, PRESETS, Knob, knobs_of
from gnnqlab.lab.tuner.tiles import tiles_html
from gnnqlab.lab.tuner.views import TunerNumbers, draw_tuner, values
from gnnqlab.nn.models.registry import MODELS
from gnnqlab.systems.registry import SYSTEMS
from gnnqlab.tune.probe import LAMS

__all__ = ["TunerPanel"]

_LIVE_S, _FIGURE_S = 0.4, 1.0
"""Seconds between two updates of a run's status, and between two drawings of its epochs, which take processor time."""
_REST_S = 0.4
"""Seconds without a change before knobs are sent to the run; a probed place is timed after three times as long."""
_AS_SET = "as set"
_HERE, _QUEUE = "this machine", "SLURM"
_TRAIN = "Launch a run with these settings, in processes of its own"
# On a narrow page knobs scroll in a box above the figure, and the tiles are below it, so that λ and figure are in view.
_STYLE = """<style>
.gnnqlab-tuner { container-type: inline-size; }
@container (max-width: 1030px) {
  .gnnqlab-knobs { max-height: 190px; overflow-y: auto; }
  .gnnqlab-words { order: 2; }
}
</style>"""
_SYSTEM = Knob(label="System", help="Training system: selects, schedules and quantizes exchanged rows", kind="choice")


class TunerPanel:
    """Controls of a model and a session; one thread draws all changes.

    Args:
        model: the knobs.
        session: session that Train and Stop control.
        measure: True to time launched runs in the background, once per graph, model and link.
    """

    def __init__(self, model: TunerModel, session: TunerSession, *, measure: bool = True) -> None:
        import ipywidgets as widgets

        self.model, self.session = model, session
        self._measure = measure
        self._lock = threading.RLock()
        self._changed_at_s, self._drawn_at_s = time.monotonic(), 0.0
        self._is_steered = self._is_timing = False
        self._trouble = self._starting = ""
        self.updater = Updater(self.draw)
        self._make_controls()
        self.words = widgets.HTML('<p role="status">The graph is being probed: a few epochs in this process …</p>')
        self.title, self.status, self.code = widgets.HTML(), widgets.HTML(), widgets.HTML()
        self.title.value = "<b>Tuner</b>"
        self.code.layout.display = "none"
        self.advice = widgets.HTML(layout={"display": "none"}).add_class(TABLE)
        """Ranking of all systems for the place, hidden until it is requested."""
        self._advised_place: tuple[Any, ...] = ()
        self._shown = TunerNumbers()
        self.access = make_access()
        self.figure = FigureView(draw_tuner(self._shown), width=PAGE)
        self.access.observe(self._recolour, names="dark")
        place_widgets = [self.controls[name].widget for name in ("workers", "layers", "hidden", "model", "link")]
        buttons = widgets.HBox(
            [self.train, *self.place_choice, self.stop, self.reset, self.show_code, self.recommend],
            layout={"flex_flow": "row wrap"},
        )
        # Knobs are next to the figure on a wide page, so that both are in view; above it on a narrow one.
        knobs = widgets.HBox([self.own, widgets.VBox(place_widgets)], layout={"flex_flow": "row wrap"})
        knobs.add_class("gnnqlab-knobs")
        self.words.add_class("gnnqlab-words")
        left_box = widgets.VBox(
            [buttons, self.code, self.status, knobs], layout={"flex": "1 1 400px", "min_width": "0px"}
        )
        right_box = widgets.VBox([self.words, self.figure.widget], layout={"flex": "100 1 620px", "min_width": "0px"})
        right_box.add_class("gnnqlab-room")
        columns = widgets.HBox([left_box, right_box], layout={"flex_flow": "row wrap"})
        self.box = widgets.VBox([widgets.HTML(_STYLE), self.title, columns, self.advice, self.access])
        self.box.add_class("gnnqlab-tuner")
        self._update_words()
        self.updater.request()  # in a thread, because the traced epochs would delay the controls

    # -- controls -------------------------------------------------------------------------------------------------

    def _make_controls(self) -> None:
        import ipywidgets as widgets

        settings, on_change = self.model.settings, self._on_change

        def place(name: str, step: float = 1) -> Number:
            return Number(name, PLACE[name], settings.value(name), on_change, step=step, at_once=False)

        self._place_controls: dict[str, Any] = {
            "workers": place("workers"),
            "layers": place("layers"),
            "hidden": place("hidden", step=8),
            "model": ChoiceControl("model", PLACE["model"], settings.model, on_change, sorted(MODELS)),
            "link": OpenChoice("link", PLACE["link"], settings.link, on_change, LINKS),
            "system": ChoiceControl("system", _SYSTEM, settings.system, on_change, sorted(SYSTEMS)),
        }
        self._own: dict[str, Any] = {}
        self.own = widgets.VBox()
        """Controls of the system and of its recipe's settings."""
        self.preset = widgets.Dropdown(
            options=[_AS_SET, *PRESETS], description="Preset",
            tooltip="Set λ, group size, period and bit-widths at once",
            layout={"width": "300px"}, style={"description_width": "88px"},
        )  # fmt: skip
        self.preset.observe(self._take_preset, names="value")
        self._presets = row_with_tip(self.preset)
        self._make_own()
        self.train = _button("Train", "play", _TRAIN)
        self.stop = _button("Stop", "stop", "End the run and all its processes")
        self.reset = _button("Reset", "undo", "Return all knobs to their initial values")
        self.show_code = _button("Code", "code", "Show or hide equivalent Python code")
        self.recommend = _button(
            "Recommend", "trophy", "Show or hide the ranking of all systems for this graph, model, workers and link"
        )
        self.place_choice: list[Any] = []
        """Choice of the machine for Train, where there is SLURM."""
        if shutil.which("sbatch"):
            place_control = widgets.Dropdown(
                options=[_HERE, _QUEUE], tooltip="Train on this machine, or in the queue of SLURM on one node",
                layout={"width": "120px"},
            )  # fmt: skip
            place_control.observe(self._take_place, names="value")
            self.place_choice.append(place_control)
        self.train.on_click(lambda button: self._in_background(self.session.train, "A run is being launched …"))
        self.stop.on_click(lambda button: self._in_background(self.session.stop, "The run is being stopped …"))
        self.reset.on_click(lambda button: self._move(self.model.reset))
        self.show_code.on_click(self._toggle_code)
        self.recommend.on_click(self._toggle_advice)

    def _make_own(self) -> None:
        """Replace the controls of the previous system by those of the current one."""
        settings, previous_controls = self.model.settings, self._own
        self._system = settings.system
        self._own = {
            name: control_of(name, knob, settings.value(name), self._on_change)
            for name, knob in knobs_of(settings.system).items()
        }
        self.controls: dict[str, Any] = {**self._own, **self._place_controls}
        """All controls on the screen, by the names of their knobs."""
        widgets_of_system = [control.widget for control in (self._place_controls["system"], *self._own.values())]
        self.own.children = [*widgets_of_system, *([self._presets] if settings.assigns else [])]
        for control in previous_controls.values():
            _close(control.widget)

    def _on_change(self, name: str, value: Any) -> None:
        with self._lock:
            try:
                self.model.choose(**{name: value})
            except (TypeError, ValueError) as error:
                self.controls[name].refuse(str(error))
                self._update_words()
                return
            self._show_position()

    def _take_preset(self, change: Any) -> None:
        if change["new"] != _AS_SET:
            self._move(lambda: self.model.preset(change["new"]))

    def _take_place(self, change: Any) -> None:
        self.session.in_queue = change["new"] == _QUEUE

    def _move(self, change: Any) -> None:
        with self._lock:
            change()
            self._show_position()

    def follow(self) -> None:
        """Show the model's position after a change outside the panel."""
        with self._lock:
            self._show_position()

    def _show_position(self) -> None:
        """Set all controls to the model's position; the updater draws the rest."""
        settings = self.model.settings
        if settings.system != self._system:
            self._make_own()
        for name, control in self.controls.items():
            control.refuse("")
            control.show(getattr(settings, name))  # without a call back
        preset_names = (
            name
            for name, knobs in PRESETS.items()
            if settings.assigns and all(getattr(settings, key) == value for key, value in knobs.items())
        )
        self.preset.value = next(preset_names, _AS_SET)
        if settings.place != self._advised_place:  # the ranking is one of another place
            self.advice.layout.display = "none"
        self._changed_at_s, self._is_steered, self._trouble = time.monotonic(), False, ""
        self.updater.request()

    def _toggle_code(self, button: Any) -> None:
        self.code.layout.display = "none" if self.code.layout.display is None else None
        self.updater.request()

    def _toggle_advice(self, button: Any) -> None:
        if self.advice.layout.display is None:
            self.advice.layout.display = "none"
        else:
            self._in_background(self._advise, "All systems are ranked for this place …")

    def _advise(self) -> None:
        """Show the ranking of all systems, from the estimate or the timed probe that exists."""
        place = self.model.settings.place
        ranking = self.model.recommend()._repr_html_()
        with self._lock:
            if self.model.settings.place == place:  # else it would be the ranking of another place
                self.advice.value, self._advised_place, self.advice.layout.display = ranking, place, None

    def _in_background(self, action: Any, words: str) -> None:
        """Launch or stop in a thread, which takes seconds; a callback must return at once."""

        def work() -> None:
            try:
                action()
            except Exception as error:  # any reason is shown on the screen
                self._trouble = str(error)
            self._starting = ""
            self.updater.request()

        self._trouble, self._starting = "", words
        self._update_words()
        threading.Thread(target=work, daemon=True).start()

    def _recolour(self, change: Any) -> None:
        with self._lock:
            self.figure.show(draw_tuner(self._shown, dark=self.access.dark))

    # -- drawing --------------------------------------------------------------------------------------------------

    def draw(self) -> float | None:
        """Update the screen; return the seconds until the next update, ``None`` if nothing changes by itself."""
        try:
            return self._draw()
        except Exception as error:  # no caller sees a thread's error
            self._trouble = f"{type(error).__name__}: {error}"
            self._update_words()
            return None

    def _draw(self) -> float | None:
        if self._only_words():
            self._update_words()
            return self._serve_run()
        settings = self.model.settings
        if not self.model.is_probed:
            self.words.value = '<p role="status">A few epochs are traced in this process …</p>'
        # Without the front, if its eleven forecasts are not cached.
        numbers = TunerNumbers.from_model(self.model, measurement=self.session.measurement, front=self.model.has_front)
        if self.model.settings is not settings:
            self.updater.request()  # the position changed meanwhile, so this drawing is out of date
            return None
        self._show(numbers)
        for lam in LAMS:
            if self.updater.is_requested or self.model.has_front:
                break
            self.model.forecast_for(lam)  # one by one, so that a change need not wait for the whole front
        else:
            self._show(TunerNumbers.from_model(self.model, measurement=self.session.measurement))
        if not self.updater.is_requested and not self.model.has_aging:
            self.model.stale_loss  # noqa: B018  (computed once, shown from then on)
            self._update_words()
        if not self.updater.is_requested and not self.model.has_risk:
            self.model.risk  # noqa: B018  (computed once, shown from then on)
            self._update_words()
        return self._serve_run()

    def _only_words(self) -> bool:
        """Return True if no knob has changed, and the epochs of the run were drawn a moment ago."""
        now_s = time.monotonic()
        is_recent = (
            self.session.under_way and self._drawn_at_s > self._changed_at_s and now_s - self._drawn_at_s < _FIGURE_S
        )
        self._drawn_at_s = self._drawn_at_s if is_recent else now_s
        return is_recent

    def _show(self, numbers: TunerNumbers) -> None:
        with self._lock:
            self._shown = numbers
            self.figure.change(values(numbers), caption=numbers.caption)
            self._update_words()

    def _update_words(self) -> None:
        """Update status lines, tiles and buttons, which is cheap."""
        is_training = self.session.under_way
        refused_labels = [control.knob.label for control in self.controls.values() if control.is_refused]
        self.train.disabled = is_training or bool(self._starting or refused_labels)
        self.train.tooltip = f"Correct these settings first: {', '.join(refused_labels)}" if refused_labels else _TRAIN
        self.stop.disabled = not is_training
        if self.model.is_probed:
            self.title.value = f"<b>{html.escape(self.model.title)}</b>"
            self.words.value = tiles_html(self.model)
        trouble = f"<br>{alert(self._trouble)}" if self._trouble else ""
        self.status.value = _line(self._starting or self.session.sentence, trouble)
        if self.code.layout.display is None:
            name, style = f"gnnqlab-code-{self.code.model_id}", "overflow:auto;user-select:all;margin:0"
            code = html.escape(self.model.to_code())
            self.code.value = (
                f"<button type='button' data-copy='{name}' style='float:right'>Copy</button>"
                f"<pre id='{name}' tabindex='0' aria-label='Python' style='{style}'>{code}</pre>"
            )

    def _serve_run(self) -> float | None:
        """Once knobs rest, send their changes to the run or time launched runs; return the next delay in seconds."""
        rest_s = time.monotonic() - self._changed_at_s
        if self.session.under_way:
            if not self._is_steered and rest_s >= _REST_S:
                self._is_steered = True
                self.session.steer()
            return _LIVE_S
        if self._measure and not self.model.is_timed and not self._is_timing:
            if rest_s < 3 * _REST_S:  # a timing takes processor time, so it waits until knobs rest
                return 3 * _REST_S - rest_s + 0.01
            self._is_timing = True
            threading.Thread(target=self._time_place, daemon=True).start()
        return None

    def _time_place(self) -> None:
        try:
            self.session.time_place()
        except Exception as error:
            self._trouble, self._measure = f"timing launched runs failed: {error}", False
        finally:
            self._is_timing = False
        self.updater.request()


def _close(widget: Any) -> None:
    """Remove a widget with its children from every page."""
    for child in getattr(widget, "children", ()):
        _close(child)
    widget.close()


def _button(name: str, icon: str, tooltip: str) -> Any:
    import ipywidgets as widgets

    return widgets.Button(description=name, icon=icon, tooltip=tooltip, layout={"width": "auto", "min_width": "100px"})


def _line(words: str, *fragments: str) -> str:
    style = "max-width:70em;margin:4px 2px;line-height:1.5"
    return f'<p role="status" style="{style}">{html.escape(words)}{"".join(fragments)}</p>'
