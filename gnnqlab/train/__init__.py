"""Training: configuration, one worker's loop, and what it records."""
