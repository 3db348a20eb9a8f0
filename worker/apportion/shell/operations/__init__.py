"""The operator's view of a worker: metrics, health and log, without sessions or content."""
