"""Settings of Sphinx. Nothing is executed, and nothing is fetched: not when the site is built, not when it is read."""

import builtins
import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from docutils.nodes import Text
from sphinx.addnodes import pending_xref, toctree
from sphinx.util.nodes import find_pending_xref_condition

import gnnqlab
from docs.site.gather import ROOT, STATIC
from docs.site.reference import front_door, reference_of, without_checks

sys.modules.update(front_door())
without_checks()
smartquotes = False  # -- is an option, not a dash

project = "gnnqlab"
version = release = gnnqlab.__version__
copyright = "the authors of gnnqlab, Apache-2.0"

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax", "sphinx_copybutton"]
templates_path: list[str] = []

html_theme = "furo"
html_title = f"gnnqlab {release}"
html_static_path = [STATIC]
html_css_files = ["site.css"]
html_js_files = ["scrolled.js"]
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {"navigation_with_keys": True}
# Colours of code with a contrast of 4.5:1 on both grounds.
pygments_style, pygments_dark_style = "a11y-light", "github-dark"

nb_execution_mode = "off"
nb_ipywidgets_js: dict[str, dict[str, str]] = {}
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
mathjax_path = "mathjax.js"
mathjax3_config = {"svg": {"fontCache": "global"}, "options": {"enableMenu": False}}

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
napoleon_numpy_docstring = False
napoleon_use_rtype = False
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def add_scripts(app, pagename, templatename, context, doctree):
    """Scripts go where they are used: Plotly's code is as large as all the rest of a page."""
    if pagename.startswith("notebooks/"):
        for script in ("plotly.js", "templates.js", "figures.js"):
            app.add_js_file(script, loading_method="defer")
    if 'class="player"' in context.get("body", ""):
        app.add_js_file("players.js", loading_method="defer")
    if pagename == "claims":
        app.add_js_file("claims.js", loading_method="defer")


TITLES = {}


def shorten_navigation(app, pagename, templatename, context, doctree):
    """Give the navigation the titles alone: Sphinx copies all sections for every page before it leaves them out."""
    of_sections, env = context.get("toctree"), app.env
    if of_sections is None:
        return
    if not TITLES:
        TITLES.update({name: titles(toc) for name, toc in env.tocs.items()})

    def of_titles(**options):
        tocs, env.tocs = env.tocs, TITLES
        try:
            return of_sections(**options)
        finally:
            env.tocs = tocs

    context["toctree"] = of_titles


def titles(toc):
    """Return a page's table of contents with the toctrees of its sections and without the sections."""
    short = toc.deepcopy()
    for page in short.children:
        if len(page) > 1:
            if deeper := [each.deepcopy() for each in page.findall(toctree)]:
                page[1][:] = deeper
            else:
                page.pop(1)
    return short


def mend_page(app, pagename, templatename, context, doctree):
    """For screen readers: give captions of the navigation a level; lines of a signature are no list of terms."""
    caption = 'class="caption" role="heading"'
    for part in ("body", "furo_navigation_tree"):
        text = context.get(part) or ""
        text = text.replace(f"{caption}>", f'{caption} aria-level="2">')
        context[part] = re.sub(r"<dl>(?=\s*<dd>)", '<dl role="presentation">', text)  # lines without terms


def resolve(app, env, node, contnode):
    """Names that docstrings refer to by the file they lie in are documented under the name that users write."""
    name = reference_of(node.get("reftarget", ""))
    if name is None or node.get("refdomain") != "py":
        return None
    return env.domains["py"].resolve_xref(env, node["refdoc"], app.builder, "obj", name, node, contnode)


SAID = {}


def keep(app, what, name, obj, options, lines):
    """Napoleon takes words before a colon for the type of an attribute; ours are sentences."""
    if what == "attribute":
        SAID[name] = list(lines)


def put_back(app, what, name, obj, options, lines):
    if what == "attribute":
        lines[:] = SAID.pop(name)


def mend_signatures(app, doctree):
    """Annotations with ``bytes`` name no field; parameters have a dash; paths begin at the checkout, on any machine."""
    for text in list(doctree.findall(lambda node: isinstance(node, Text) and (node == " -- " or str(ROOT) in node))):
        text.parent.replace(text, Text(text.replace(" -- ", " – ").replace(f"{ROOT}/", "")))
    for node in list(doctree.findall(pending_xref)):
        if node.get("refdomain") == "py" and hasattr(builtins, node["reftarget"]):
            resolved = find_pending_xref_condition(node, "resolved")
            node.replace_self((resolved or node).children)


def setup(app):
    app.connect("autodoc-process-docstring", keep, priority=400)
    app.connect("autodoc-process-docstring", put_back, priority=600)
    app.connect("doctree-read", mend_signatures)
    app.connect("html-page-context", add_scripts)
    app.connect("html-page-context", shorten_navigation, priority=400)  # before the theme makes its navigation
    app.connect("html-page-context", mend_page, priority=900)  # after the theme has made its navigation
    app.connect("missing-reference", resolve)
