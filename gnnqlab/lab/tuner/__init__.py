"""The tuner: knobs in, forecasts out, and a run that follows them."""

from gnnqlab.lab.tuner.tuner import Tuner

__all__ = ["Tuner"]
