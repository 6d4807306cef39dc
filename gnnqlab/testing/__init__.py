"""Test kit for user models: checks that distributed training equals training in one process."""

from gnnqlab.errors import LawBroken
from gnnqlab.testing.law import LawReport, check_law

__all__ = ["LawBroken", "LawReport", "check_law"]
