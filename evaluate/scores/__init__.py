"""From matches to numbers: what a protocol asks for, ranking by score, curves, AP and summaries."""
