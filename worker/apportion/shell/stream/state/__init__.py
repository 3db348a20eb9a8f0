"""Session rows of a partition, their changelog, and recovery from it."""
