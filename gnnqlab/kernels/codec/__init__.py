"""Kernels that quantize rows, and those that read the codes."""
