"""Measurements of training from the inside: gradients, their noise, and the theorems beside them."""
