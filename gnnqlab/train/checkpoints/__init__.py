"""Checkpoints: the state of a training, and the trained model, on disk."""
