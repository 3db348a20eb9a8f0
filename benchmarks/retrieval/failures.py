"""The error of data that cannot be read, with the place and what to do."""


class DataError(Exception):
    """A file or a repository is not what the evaluation reads; the message says what it expects."""
