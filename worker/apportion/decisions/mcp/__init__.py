"""A server of the Model Context Protocol that reads recorded decisions: find, explain and replay them.

It writes nothing, and answers have neither content nor paths. Needs the extra `apportion[mcp]`.
"""
