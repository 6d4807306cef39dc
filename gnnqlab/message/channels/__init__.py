"""Channels: exchange the embeddings or gradients of one layer with all peers."""
