"""The Faust application: the only code that imports Faust."""
