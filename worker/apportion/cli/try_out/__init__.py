"""Commands to try the product: the demo, and realistic events."""
