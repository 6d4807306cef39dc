"""A student's side of the course: guesses, progress, graded code, and the file to hand in."""
