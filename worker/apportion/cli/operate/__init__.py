"""Commands for operators: topics, policies, health, settings and sessions."""
