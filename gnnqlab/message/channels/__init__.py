"""Channels: the rows of one layer and direction, from one worker to its peers."""
