"""Export of a run's records to other tools, from the run folder alone; workers import none of them."""
