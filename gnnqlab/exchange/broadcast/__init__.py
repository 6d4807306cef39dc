"""Broadcast exchange: each worker in turn sends its whole block of embeddings to all others."""
