"""Kernels over the edges of a graph."""
