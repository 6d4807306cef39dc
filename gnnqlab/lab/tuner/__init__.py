"""Tuner: knobs for the settings of a system, forecasts of their effect, and a run that follows them."""

from gnnqlab.lab.tuner.tuner import Tuner

__all__ = ["Tuner"]
