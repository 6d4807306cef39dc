"""Training: configuration, one worker's loop, and its records."""
