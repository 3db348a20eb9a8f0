"""Commands that compose contexts: from files, over HTTP and in the worker."""
