"""The shell around the core: everything that talks to Kafka. It decides nothing about contexts."""
