"""Recipes of published systems, one per file."""
