"""The row that a request meets under a changed policy.

Decides only under which policy that stands which a strategy left: else every change of a policy would change,
beside itself, what the session carries.
"""

from msgspec.structs import replace

from apportion.core.policy import Policy
from apportion.core.session.row import Session


def row_under(session: Session, was: Policy, policy: Policy) -> Session:
    """Return the row as if what the one policy left had been left under the other."""
    own = [one for one in session.carried if (one.policy, one.policy_digest) == (was.name, was.digest)]
    if not own or policy.digest == was.digest:
        return session
    others = [one for one in session.carried if one not in own and one.policy != policy.name]
    left = [replace(one, policy=policy.name, policy_digest=policy.digest) for one in own]
    return replace(session, carried=(*others, *left))
