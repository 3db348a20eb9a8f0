"""Composing without Kafka: JSON lines in, answers out, with all sessions in memory."""
