"""The session row and its transitions, and the pool of artifacts."""
