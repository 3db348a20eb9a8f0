"""Text: token counts, cuts, token boundaries and rendering.

It knows no events and no policies.
"""
