"""Measurements inside a training: gradients, their noise, and comparisons with the papers' theorems."""
