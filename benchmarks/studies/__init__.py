"""Benchmarks of whole trainings."""
