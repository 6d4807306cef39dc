"""Link prediction: negative sampling, decoders, and the training objective."""
