"""Kernels that quantize rows and decode them."""
