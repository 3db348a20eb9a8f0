"""What an operator sees of a worker: its metrics, whether it lives, and whether it is ready."""
