"""The pure heart: decides everything, does no I/O, reads no clock, knows no other room."""
