"""JSON: what its first bytes show, its records as columns or one at a time, and their checked values."""
