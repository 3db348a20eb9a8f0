"""Events to and from bytes: decoding, bounds, CloudEvents and dead letters."""
