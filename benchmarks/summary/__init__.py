"""The page of results: chosen rows of the kept tables, and a chart for each group of them."""
