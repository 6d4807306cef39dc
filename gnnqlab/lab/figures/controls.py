"""What every view with controls shares: names for screen readers, the page's theme, and a form without a kernel."""

from __future__ import annotations

import functools
import html
import importlib.util
import os
from typing import Any

__all__ = [
    "BESIDE", "KNOBS", "MARK", "PAGE", "TABLE", "WIDTH", "alert", "asked_for_pictures", "make_access", "make_tip",
    "shows_static", "tipped",
]  # fmt: skip

WIDTH = 860
"""Pixels of a figure among controls on a page that has the room; without a width it takes less than there is."""

PAGE = 1600
"""The same of a figure of many panels, which takes the page's width up to this."""

BESIDE = {"display": "flex", "flex_flow": "row", "align_items": "center"}
"""Layout of toggle buttons with their label on the left; without it the label stands over them."""

KNOBS = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "6px 14px"}
"""Layout of a row of controls: a slider's number and the label of the next one have room between them."""

TABLE = "jp-RenderedHTMLCommon"
"""Class of a widget that shows a table: a page sets it as it sets those of cells, with room between its columns."""

MARK = "#d55e00"
"""Colour of what marks a refused value. Words about it are in the page's own ink: on light and on dark pages alike no
warm colour has the contrast that small letters need (4.5:1)."""

# Sliders of ipywidgets leave their handle without a name; here it gets the text of the label beside it. The
# theme is read from the page, because figures cannot see it.
_SCRIPT = """
// Notebook 7 takes arrow keys before sliders have them, and JupyterLab before lists and radio buttons: a press on one
// of ours moved to another cell. Once a page, and only for keys that the control itself knows.
const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];
const keepKeys = () => {
  if (window.gnnqlabKeys) return;
  window.gnnqlabKeys = true;
  window.addEventListener("keydown", (event) => {
    const at = event.target;
    if (!at.matches?.('.noUi-handle, select, input[type="radio"]') || !at.closest(".jp-Cell-outputArea")) return;
    const plain = !(event.ctrlKey || event.altKey || event.metaKey || event.shiftKey);
    at.toggleAttribute("data-lm-suppress-shortcuts", false);
    if (plain && KEYS.includes(event.key)) at.setAttribute("data-lm-suppress-shortcuts", "true");
  }, true);
};
// Notebook 7 puts outputs higher than a page into a box that scrolls, of a few lines; views with controls are whole.
const WHOLE = "body[data-notebook] .jp-mod-outputsScrolled .jp-Cell-outputArea.gnnqlab-whole { max-height: none; }";
const keepWhole = (el) => {
  el.closest(".jp-Cell-outputArea")?.classList.add("gnnqlab-whole");
  if (document.getElementById("gnnqlab-whole")) return;
  document.head.append(Object.assign(document.createElement("style"), { id: "gnnqlab-whole", textContent: WHOLE }));
};
export default () => {
let views = 0;
const show = (model, shown) => { model.set("shown", shown); model.save_changes(); };
function render({ model, el }) {
  const root = () => el.closest(".jp-OutputArea-output, .lm-Widget.jp-Cell-outputArea") || document.body;
  const name = () => {
    for (const each of root().querySelectorAll('[title="null"]')) each.removeAttribute("title"); // of no tooltip
    for (const label of root().querySelectorAll(".widget-label")) {
      const text = label.textContent.replace("\\u200b", "").trim();
      if (!text || !label.parentElement) continue;
      for (const control of label.parentElement.querySelectorAll(".noUi-handle, input, select, [contenteditable]"))
        if (control.getAttribute("aria-label") !== text) control.setAttribute("aria-label", text);
    }
    // Lists and check boxes drop their tooltip, sliders and boxes put it on the label alone: the whole row says it.
    for (const tip of root().querySelectorAll("[data-tip]")) {
      const row = tip.closest(".widget-hbox");
      if (!row || row.title === tip.dataset.tip) continue;
      row.title = tip.dataset.tip;
      for (const own of row.querySelectorAll("[title]")) own.removeAttribute("title");
    }
    for (const label of root().querySelectorAll(".widget-label[title]")) // a control with no row of its own
      if (!label.closest(".widget-hbox[title]") && label.title) label.parentElement.title = label.title;
  };
  const theme = () => {
    const light = document.body.dataset.jpThemeLight; // JupyterLab, Notebook 7, Voilà
    const kind = document.body.dataset.vscodeThemeKind; // VS Code: "vscode-dark" ...
    const colab = document.documentElement.getAttribute("theme");
    const dark = light !== undefined ? light === "false"
      : kind !== undefined ? !kind.endsWith("light")
      : colab !== null ? colab === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    if (model.get("dark") !== dark) { model.set("dark", dark); model.save_changes(); }
  };
  const named = new MutationObserver(name);
  const themed = new MutationObserver(theme);
  const changes = { childList: true, subtree: true, characterData: true };
  requestAnimationFrame(() => { name(); keepWhole(el); named.observe(root(), changes); });
  keepKeys();
  theme();
  views += 1;
  show(model, true);
  const marks = ["data-jp-theme-light", "data-vscode-theme-kind"];
  themed.observe(document.body, { attributes: true, attributeFilter: marks });
  themed.observe(document.documentElement, { attributes: true, attributeFilter: ["theme"] });
  return () => {
    named.disconnect();
    themed.disconnect();
    views -= 1;
    if (!views) show(model, false);
  };
}
return { render };
};
"""


def asked_for_pictures() -> bool:
    """Whether ``GNNQLAB_STATIC=1`` asks for pictures instead of controls.

    Example:
        >>> import os
        >>> os.environ["GNNQLAB_STATIC"] = "0"
        >>> asked_for_pictures()
        False
        >>> del os.environ["GNNQLAB_STATIC"]
    """
    return os.environ.get("GNNQLAB_STATIC", "") not in ("", "0")


def shows_static() -> bool:
    """Whether views put out pictures instead of controls: asked for by ``GNNQLAB_STATIC=1``, or nothing else can be.

    Example:
        >>> import os
        >>> os.environ["GNNQLAB_STATIC"] = "1"
        >>> shows_static()
        True
        >>> del os.environ["GNNQLAB_STATIC"]
    """
    return asked_for_pictures() or any(importlib.util.find_spec(name) is None for name in ("ipywidgets", "anywidget"))


def make_tip(words: str) -> Any:
    """Return a widget without a face; in a row of controls it makes the whole row say the words on hover.

    Args:
        words: plain text.
    """
    import ipywidgets as widgets

    tip = f'<span data-tip="{html.escape(words, quote=True)}"></span>'
    return widgets.HTML(tip, layout={"width": "0px", "margin": "0px"})


def tipped(control: Any) -> Any:
    """Return a row with one control, which says its tooltip wherever a pointer rests; a list alone drops it."""
    import ipywidgets as widgets

    return widgets.HBox([control, make_tip(control.tooltip)])


def alert(words: str) -> str:
    """Return HTML that tells everybody, screen readers too, what is wrong; empty without words.

    Example:
        >>> 'role="alert"' in alert("a < b"), "a &lt; b" in alert("a < b"), alert("")
        (True, True, '')
    """
    if not words:
        return ""
    style = f"display:inline-block;border-left:3px solid {MARK};padding-left:6px;max-width:70em;line-height:1.4"
    return f'<span role="alert" style="{style}"><b style="color:{MARK}">✗</b> {html.escape(words)}</span>'


def make_access() -> Any:
    """Return a widget without a face that names every control beside it and reports the theme in ``dark``.

    It stands in the same box as the controls; observe its trait ``dark`` to redraw figures. ``shown`` is true while
    a page shows the box; nobody sees what is drawn before or afterwards.
    """
    return _access_class()()


@functools.cache
def _access_class() -> Any:
    import anywidget
    import traitlets

    class Access(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = _SCRIPT
        dark = traitlets.Bool(False).tag(sync=True)
        shown = traitlets.Bool(False).tag(sync=True)

    return Access
