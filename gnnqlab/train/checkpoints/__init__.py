"""Checkpoints: the state of a training on disk."""
