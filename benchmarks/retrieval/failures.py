"""The error of data that cannot be read."""


class DataError(Exception):
    """A file or a repository does not have the expected form, which the message names."""
