"""Exchange of columns: each worker aggregates the whole graph on its share of the columns."""
