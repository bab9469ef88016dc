"""Tables with a row per box: CSV files, the role of each column, and the images that rows name."""
