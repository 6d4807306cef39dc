"""Codecs: encode embeddings and gradients to bytes, and decode them."""
