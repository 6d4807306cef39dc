"""Transports: bytes between workers, counted and timed."""
