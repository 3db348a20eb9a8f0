"""What held prefixes and saying things once are worth: on simulated agents, and on a recorded history.

Decides what is simulated, and how share, value and price are measured. Composes with the engine as a user
does, under the built-in policies `lanes` and `agent`.
"""
