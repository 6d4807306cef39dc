"""Kernels of dense matrix products."""
