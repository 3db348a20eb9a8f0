"""Session rows of a partition, their changelog, and recovery from it.

It does not know the pipeline above it.
"""
