"""HTTP in front of the topics: a call becomes an event, and the event's answer becomes the response.

The gateway composes nothing unless it runs without Kafka.
"""
