"""Results as text, tables, JSON, plots, and as the data of a report page."""
