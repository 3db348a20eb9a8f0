"""Cost of the shell: the path of an event from fetched record batches to sent ones."""
