"""The configuration of a run: dataclasses, files, presets and the command line."""
