"""The training loop of one worker."""
