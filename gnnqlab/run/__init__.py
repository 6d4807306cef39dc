"""Files and processes of a run, and the handle that reads and stops it from any process."""
