"""Helpers that tests share: builders of requests, models, brokers and processes."""
