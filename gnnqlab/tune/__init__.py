"""Predicting what a setting does before anything is trained with it, and choosing settings by that."""
