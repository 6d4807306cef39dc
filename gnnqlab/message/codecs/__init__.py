"""Codecs: embeddings to bytes and back."""
