"""The command line of the long forms."""

from reliability.__main__ import FORMS, arguments


def test_the_help_names_every_form() -> None:
    shown = " ".join(arguments().format_help().split())
    assert all(f"{name}: " in shown for name in (*FORMS, "batches"))
    assert "soak: Thirty minutes at 70 % of capacity" in shown
