"""Prediction of an epoch's time, bytes and gradient noise for a setting, and choice of settings by prediction."""
