"""The worker: Kafka, the stream of events, sessions in tables, metrics, health and the process log."""
