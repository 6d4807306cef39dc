"""Browser of the runs in a folder: a table to sort, filter and tick, seeds grouped, with actions on ticked runs."""

from gnnqlab.lab.listing.browser import RunBrowser
from gnnqlab.lab.listing.run_rows import grouped, run_row

__all__ = ["RunBrowser", "grouped", "run_row"]
