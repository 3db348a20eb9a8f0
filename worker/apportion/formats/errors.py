"""What cannot be told in a format."""


class FormatError(Exception):
    """A composed event has no form in a format; its place, and what to do, never a word of its content."""

    code = "no_such_form"

    def __init__(self, pointer: str, message: str) -> None:
        super().__init__(f"{message} (at {pointer})")
        self.pointer = pointer
        self.message = message
