"""The row that a request meets under a changed policy.

Decides only under which policy that stands which a strategy left: else every change of a policy would change,
beside itself, what the session carries.
"""

from msgspec.structs import replace

from apportion.core.session.row import Session
from apportion.core.strategy_api.policy import Policy


def row_under(session: Session, was: Policy, policy: Policy) -> Session:
    """Return the row as if what the one policy left had been left under the other."""
    own = [
        state for state in session.carried if (state.policy, state.policy_digest) == (was.name, was.digest)
    ]
    if not own or policy.digest == was.digest:
        return session
    others = [state for state in session.carried if state not in own and state.policy != policy.name]
    left = [replace(state, policy=policy.name, policy_digest=policy.digest) for state in own]
    return replace(session, carried=(*others, *left))
