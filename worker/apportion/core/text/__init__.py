"""Text: token counts, cuts, token boundaries and rendering."""
