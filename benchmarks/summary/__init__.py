"""The page of results: chosen rows of the stored tables, and a chart for each group of them."""
