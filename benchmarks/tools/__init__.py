"""Choice of tools among the lists of 19 public MCP servers: needed tools sent, and changes of the set."""
