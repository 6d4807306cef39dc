"""Shared parts of views with controls: names for screen readers, the page's theme, and static output."""

from __future__ import annotations

import functools
import html
import importlib.util
import json
import os
from typing import Any

__all__ = [
    "access_script",
    "LABEL_LEFT", "KNOBS", "MARK", "PAGE", "SAID", "TABLE", "alert", "static_requested", "make_access", "make_tip",
    "shows_static", "row_with_tip",
]  # fmt: skip

PAGE = 1600
"""Largest width in pixels of a figure among controls, less on a narrower page; without a width it would not fill it."""

LABEL_LEFT = {"display": "flex", "flex_flow": "row", "align_items": "center"}
"""Layout of toggle buttons with their label on the left; by default it is above them."""

KNOBS = {"flex_flow": "row wrap", "align_items": "center", "grid_gap": "6px 14px"}
"""Layout of a row of controls with a gap between a slider's value and the next label."""

TABLE = "jp-RenderedHTMLCommon"
"""CSS class of a widget with a table, which pages format like tables of cell outputs."""

SAID = "gnnqlab-said"
"""CSS class of a widget whose words screen readers announce whenever they change."""

MARK = "#d55e00"
"""Colour of the mark of a refused value. Its text has the page's own colour, because no warm colour has the contrast
that small letters need (4.5:1) on both light and dark pages."""

# Handles of ipywidgets' sliders have no name for screen readers; this script gives them the text of their label. It
# reads the theme from the page too, because the kernel does not know it.
_SCRIPT = """
// Notebook 7 handles arrow keys before sliders do, and JupyterLab before lists and radio buttons: the key would select
// another cell. Installed once per page, and only for keys that the control handles itself.
const KEYS = ["ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"];
const SCROLLED = '.jupyter-widgets[style*="overflow: auto"]'; // boxes of tables
const PLAYED = { "fa-play": "Play or pause", "fa-pause": "Play or pause", "fa-stop": "Stop", "fa-retweet": "Repeat" };
const keepKeys = () => {
  if (window.gnnqlabKeys) return;
  window.gnnqlabKeys = true;
  window.addEventListener("keydown", (event) => {
    const control = event.target;
    if (!control.matches?.(`.noUi-handle, select, input[type="radio"], ${SCROLLED}`)) return;
    if (!control.closest(".jp-Cell-outputArea")) return;
    const plain = !(event.ctrlKey || event.altKey || event.metaKey || event.shiftKey);
    control.toggleAttribute("data-lm-suppress-shortcuts", false);
    if (plain && KEYS.includes(event.key)) control.setAttribute("data-lm-suppress-shortcuts", "true");
  }, true);
};
// Notebook 7 puts outputs taller than a page into a scrolling box of a few lines; views with controls are shown whole.
const WHOLE = "body[data-notebook] .jp-mod-outputsScrolled .jp-Cell-outputArea.gnnqlab-whole { max-height: none; }";
const keepWhole = (el) => {
  el.closest(".jp-Cell-outputArea")?.classList.add("gnnqlab-whole");
  if (document.getElementById("gnnqlab-whole")) return;
  document.head.append(Object.assign(document.createElement("style"), { id: "gnnqlab-whole", textContent: WHOLE }));
};
// A button with data-copy copies the text of the element with this id; where the browser refuses, it selects the text.
const copyText = async (event) => {
  const button = event.target.closest?.("button[data-copy]");
  const source = button && document.getElementById(button.dataset.copy);
  if (!source) return;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
};
const keepCopies = () => {
  if (window.gnnqlabCopies) return;
  window.gnnqlabCopies = true;
  document.addEventListener("click", copyText);
};
// Figures that are no widgets have the colours of a light page; in a dark theme their text and background change.
const showDark = () => {
  if (document.getElementById("gnnqlab-dark")) return;
  const rules = DARK_RULES.map(([name, before, after]) => {
    const marked = `body[data-jp-theme-light="false"] .jp-RenderedPlotly [style*="${name}: ${before}"]`;
    return `${marked} { ${name}: ${after} !important; }`;
  });
  const style = { id: "gnnqlab-dark", textContent: rules.join(" ") };
  document.head.append(Object.assign(document.createElement("style"), style));
};
export default () => {
let views = 0;
const show = (model, shown) => { model.set("shown", shown); model.save_changes(); };
function render({ model, el }) {
  const root = () => el.closest(".jp-OutputArea-output, .lm-Widget.jp-Cell-outputArea") || document.body;
  const name = () => {
    for (const each of root().querySelectorAll('[title="null"]')) each.removeAttribute("title"); // for no tooltip
    for (const label of root().querySelectorAll(".widget-label")) {
      const text = label.textContent.replace("\\u200b", "").trim();
      if (!text || !label.parentElement) continue;
      for (const control of label.parentElement.querySelectorAll(".noUi-handle, input, select, [contenteditable]")) {
        if (control.getAttribute("aria-label") !== text) control.setAttribute("aria-label", text);
        if (control.isContentEditable) control.role = "textbox"; // the number beside a slider
      }
    }
    for (const list of root().querySelectorAll("select[title]:not([aria-label])")) list.ariaLabel = list.title;
    for (const icon of root().querySelectorAll(".widget-play button > .fa")) {
      const text = Object.entries(PLAYED).find(([each]) => icon.classList.contains(each))?.[1] ?? "";
      Object.assign(icon.parentElement, { ariaLabel: text, title: text });
    }
    for (const icon of root().querySelectorAll("button > .fa")) icon.ariaHidden = "true"; // a letter of an icon font
    // Only their colour says which of some toggle buttons is chosen.
    for (const row of root().querySelectorAll(".widget-toggle-buttons"))
      Object.assign(row, { role: "group", ariaLabel: row.querySelector(".widget-label")?.textContent.trim() ?? "" });
    for (const button of root().querySelectorAll(".widget-toggle-button")) {
      button.ariaPressed = String(button.classList.contains("mod-active"));
      named.observe(button, { attributes: true, attributeFilter: ["class"] });
    }
    // A button that is disabled by its own step would lose the focus: the slider next to it takes it.
    for (const button of root().querySelectorAll(".widget-button")) {
      if (button.disabled && button === document.activeElement)
        button.parentElement.querySelector(".noUi-handle")?.focus();
      named.observe(button, { attributes: true, attributeFilter: ["disabled"] });
    }
    // Words are announced if the element that has them was there before they change; paragraphs are replaced.
    for (const words of root().querySelectorAll(".gnnqlab-said > .widget-html-content")) {
      words.role = "status";
      for (const each of words.querySelectorAll('[role="status"]')) each.removeAttribute("role");
    }
    for (const box of root().querySelectorAll(SCROLLED)) // the focus, so that arrow keys scroll it
      Object.assign(box, { tabIndex: 0, role: "region", ariaLabel: "Numbers" });
    // Lists and check boxes have no tooltip, sliders and boxes have it on the label only: put it on the whole row.
    for (const tip of root().querySelectorAll("[data-tip]")) {
      const row = tip.closest(".widget-hbox");
      if (!row || row.title === tip.dataset.tip) continue;
      row.title = tip.dataset.tip;
      for (const own of row.querySelectorAll("[title]")) own.removeAttribute("title");
    }
    for (const label of root().querySelectorAll(".widget-label[title]")) // a control outside a row
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
  keepCopies();
  showDark();
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


def static_requested() -> bool:
    """Return True if ``GNNQLAB_STATIC=1`` selects pictures instead of controls.

    Example:
        >>> import os
        >>> os.environ["GNNQLAB_STATIC"] = "0"
        >>> static_requested()
        False
        >>> del os.environ["GNNQLAB_STATIC"]
    """
    return os.environ.get("GNNQLAB_STATIC", "") not in ("", "0")


def shows_static() -> bool:
    """Return True if views are pictures instead of controls: by ``GNNQLAB_STATIC=1``, or without their packages.

    Example:
        >>> import os
        >>> os.environ["GNNQLAB_STATIC"] = "1"
        >>> shows_static()
        True
        >>> del os.environ["GNNQLAB_STATIC"]
    """
    return static_requested() or any(importlib.util.find_spec(name) is None for name in ("ipywidgets", "anywidget"))


def make_tip(words: str) -> Any:
    """Return an invisible widget that gives its whole row of controls a tooltip.

    Args:
        words: plain text of the tooltip.
    """
    import ipywidgets as widgets

    # Read by the script above, which moves the text to the whole row.
    tip = f'<span data-tip="{html.escape(words, quote=True)}"></span>'
    return widgets.HTML(tip, layout={"width": "0px", "margin": "0px"})


def row_with_tip(control: Any) -> Any:
    """Return a row with one control whose tooltip covers the whole row; a list alone would show none."""
    import ipywidgets as widgets

    return widgets.HBox([control, make_tip(control.tooltip)])


def alert(words: str) -> str:
    """Return HTML of an error message, which screen readers announce; empty without words.

    Example:
        >>> 'role="alert"' in alert("a < b"), "a &lt; b" in alert("a < b"), alert("")
        (True, True, '')
    """
    if not words:
        return ""
    style = f"display:inline-block;border-left:3px solid {MARK};padding-left:6px;max-width:70em;line-height:1.4"
    return f'<span role="alert" style="{style}"><b style="color:{MARK}">✗</b> {html.escape(words)}</span>'


def make_access() -> Any:
    """Return an invisible widget that names the controls next to it for screen readers and reports the page's theme.

    Place it in the same box as the controls, and observe its trait ``dark`` to redraw figures. ``shown`` is True while
    a page shows the box; drawings before or afterwards are invisible.
    """
    return _access_class()()


def access_script() -> str:
    """Return the script of the invisible widget, with the colours that change in a dark theme."""
    from gnnqlab.lab.figures.theme import dark_rules

    return f"const DARK_RULES = {json.dumps(dark_rules(also=('background',)))};\n{_SCRIPT}"


@functools.cache
def _access_class() -> Any:
    import anywidget
    import traitlets

    class Access(anywidget.AnyWidget):  # type: ignore[misc]
        _esm = access_script()
        dark = traitlets.Bool(False).tag(sync=True)
        shown = traitlets.Bool(False).tag(sync=True)

    return Access
