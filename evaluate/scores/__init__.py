"""Turn matches into numbers: protocols, ranking by score, curves, AP and summaries."""
