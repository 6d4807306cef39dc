"""Imports of the tests' ranks, for the process that forks them: loaded once and excluded from garbage collection."""

import gc

import hypothesis  # noqa: F401
import pytest  # noqa: F401
import torch.distributed  # noqa: F401

import gnnqlab.systems
import gnnqlab.train.loop.fit  # noqa: F401

gc.collect()
gc.freeze()  # A collection would write to every object, and so copy every page of memory.
