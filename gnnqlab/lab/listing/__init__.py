"""All runs of a folder at once: a table to sort, filter and tick, seeds together, and what to do with them."""

from gnnqlab.lab.listing.browser import RunBrowser
from gnnqlab.lab.listing.run_rows import grouped, run_row

__all__ = ["RunBrowser", "grouped", "run_row"]
