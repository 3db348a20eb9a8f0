"""The order in which records are read, answered, made durable and committed."""
