"""Commands that read recorded decisions."""
