"""Records of a training: one file per subject in the run folder."""
