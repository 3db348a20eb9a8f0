"""The Faust application: the only code that imports Faust.

The order of writes does not belong here.
"""
