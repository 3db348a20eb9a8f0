"""The error of the formats."""


class FormatError(Exception):
    """A format cannot express a composed event.

    The error names the place and the remedy, but no content.
    """

    code = "no_such_form"

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{message} (at {pointer})")
        self.pointer = pointer
        self.message = message
