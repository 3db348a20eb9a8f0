"""The lookup of one decision in the topics, and of its origin in the partition that the decision names."""

from itertools import chain

from msgspec import UNSET

from apportion.core.events import session_key
from apportion.core.results import ContextDecision
from apportion.decisions.recompose.partition import TopicReading
from apportion.decisions.recompose.run import Recomposition
from apportion.decisions.replay.findings import Finding, FindingKind
from apportion.decisions.replay.origin import Origin, find_decision, of_session, origin_of
from apportion.decisions.replay.recomposing import Recomposer
from apportion.decisions.replay.verify import DECISIONS, Verification
from apportion.engine.assembly import create_engine


def decision_of(run: Recomposition, prefix: str) -> ContextDecision:
    """Return the decision whose id begins with `prefix`; raises as `find_decision`, and if Kafka fails."""
    decisions = run.reader.read(*[span.decisions for span in run.ranges])
    return find_decision(chain.from_iterable(decisions), prefix)


def origin_in(run: Recomposition, decision: ContextDecision) -> Origin | Finding:
    """Return the origin of a decision, or why it is unknown; raise SettingsError, BrokerUnreachableError."""
    source = UNSET if decision.run is UNSET else decision.run.source
    ranges = [span for span in run.ranges if source is not UNSET and span.partition == source.partition]
    if not ranges:
        return Finding(FindingKind.NO_EVENT, DECISIONS, decision_id=decision.decision_id)
    [own] = ranges
    events, decisions = run.reader.read(own.requests, own.decisions)
    key = session_key(decision.tenant, decision.session_id).encode()
    return origin_of(
        decision,
        (event for event in events if event.key == key),
        of_session(decisions, decision),
        lambda records: Verification(
            Recomposer(create_engine(run.settings), run.timeline, run.settings.default_policy),
            TopicReading(run.settings, own.extent),
            records,
        ),
    )
