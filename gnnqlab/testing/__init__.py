"""The test kit for models of one's own: whether workers together compute what one process does."""

from gnnqlab.errors import LawBroken
from gnnqlab.testing.law import LawReport, check_law

__all__ = ["LawBroken", "LawReport", "check_law"]
