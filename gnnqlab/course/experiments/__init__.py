"""Experiments of the course: one question a file."""
