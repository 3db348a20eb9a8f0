"""The order in which records are read, answered, made durable and committed.

It does not decide the content of answers.
"""
