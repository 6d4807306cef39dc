"""A teacher's side of the course: grades of files that were handed in, and the instructor pack."""
