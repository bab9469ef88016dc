"""Evaluate data larger than memory part by part, in one process or on a cluster, with identical numbers."""
