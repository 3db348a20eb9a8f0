"""A read-only server of the Model Context Protocol that finds, explains and replays recorded decisions."""
