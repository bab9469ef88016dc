"""The version, which has a home of its own so that what states it imports nothing else."""

VERSION = "0.1.0"
