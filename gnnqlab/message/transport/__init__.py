"""Transports: send and receive bytes between workers, with sizes and times."""
