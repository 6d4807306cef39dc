"""The files of a run, its processes, and the handle that reads and stops it in any process."""
