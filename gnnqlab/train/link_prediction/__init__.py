"""Prediction of links: negatives, decoders, and the objective that a training asks."""
