"""Records of a training: one file a subject in the folder of the run."""
