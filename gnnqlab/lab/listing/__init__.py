"""Browser of the runs in a folder: a table to sort, filter and tick, seeds grouped, with actions on ticked runs."""

from gnnqlab.former_names import former_functions
from gnnqlab.lab.listing.browser import RunBrowser
from gnnqlab.lab.listing.run_rows import group_by_settings, run_row

__all__ = ["RunBrowser", "group_by_settings", "run_row"]
__getattr__ = former_functions(__name__, {"grouped": "group_by_settings"})
