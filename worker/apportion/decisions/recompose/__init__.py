"""Verification and replay of decisions in Kafka's topics, without a consumer group and without writing."""
