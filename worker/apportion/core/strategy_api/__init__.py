"""A strategy's interface: its task, policy and verdicts, and the parts that strategies share."""
