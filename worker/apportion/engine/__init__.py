"""A core that is ready to use without a network: token counters, built-in policies, composing from files."""
