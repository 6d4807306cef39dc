"""Recipes: one published system a file."""
