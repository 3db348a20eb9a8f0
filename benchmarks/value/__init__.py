"""Value of held prefixes and of removed repetitions, on simulated agents and on a recorded history.

Share, value and price are measured. The engine composes under the built-in policies `lanes` and `agent`, as
for a user.
"""
