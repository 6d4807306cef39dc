"""Dark pages of JupyterLab, VS Code and Colab are detected by their marks: the views' script in a marked page."""

from __future__ import annotations

import pytest

from gnnqlab.lab.figures.controls import access_script
from tests.chromium import Browser

_PAGES = {
    '<html><body data-jp-theme-light="true">': False,
    '<html><body data-jp-theme-light="false">': True,
    '<html><body data-vscode-theme-kind="vscode-light">': False,
    '<html><body data-vscode-theme-kind="vscode-high-contrast">': True,
    '<html theme="dark"><body>': True,
    '<html theme=""><body>': False,
    "<html><body>": True,  # the preference of the screen
}
_DRAW = """async (script) => {
  const { default: make } = await import("data:text/javascript;charset=utf-8," + encodeURIComponent(script));
  const told = { dark: false };
  const model = { get: name => told[name], set: (name, value) => { told[name] = value; }, save_changes: () => {} };
  make().render({ model, el: document.body });
  const first = told.dark;
  document.documentElement.setAttribute("theme", first ? "" : "dark");
  document.body.removeAttribute("data-jp-theme-light");
  document.body.removeAttribute("data-vscode-theme-kind");
  await new Promise(resolve => setTimeout(resolve, 20));
  return [first, told.dark];
}"""


@pytest.mark.parametrize("page", _PAGES)
def test_a_dark_page_is_known_and_followed(browser: Browser, page: str) -> None:
    opened = browser.new_page(color_scheme="dark")
    opened.set_content(f"{page}</body></html>")
    assert opened.evaluate(_DRAW, access_script()) == [_PAGES[page], not _PAGES[page]]
    opened.close()
