"""Text: token counts, cuts, token boundaries and rendering.

Nothing here depends on events or policies.
"""
