"""Escaping of clients' text for terminals: ids and field names can hold anything, even escape sequences."""


def printable(text: str) -> str:
    """Return the text in one line, with characters that are not printable escaped as in Python."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in text
    )
