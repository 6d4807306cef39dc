"""The broadcast exchange: whole blocks of embeddings, one worker after another."""
