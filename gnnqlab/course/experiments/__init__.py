"""Experiments of the course, one question per file."""
