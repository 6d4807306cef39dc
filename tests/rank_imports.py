"""What ranks of tests import, for the process that forks them: imported once, and left alone by their collector."""

import gc

import hypothesis  # noqa: F401
import pytest  # noqa: F401
import torch.distributed  # noqa: F401

import gnnqlab.systems
import gnnqlab.train.loop.fit  # noqa: F401

gc.collect()
gc.freeze()  # a collection would write to every object, and so copy every page of it
