"""Kernels over rows and elements."""
