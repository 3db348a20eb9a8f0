"""Text of clients made fit for a terminal: ids and field names may hold anything, escape sequences too."""


def printable(text: str) -> str:
    """Return the text with what cannot be printed escaped as in Python; on one line, therefore."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode() for each in text)
