"""The one agent: what was fetched of a partition comes here, and is composed.

Decides nothing: the lane does, and it knows no Faust.
"""

import faust

from apportion.stream.lane import Lane


async def answer_fetched(stream: faust.Stream, lane: Lane) -> None:
    """Answer or refuse all events, a partition's in their order; they come as they were fetched.

    Raises:
        StreamError, PoliciesUnreadError: an event was neither answered nor refused, or too many were refused.
    """
    lane.deliver = stream.channel.queue.put_nowait
    async for fetched in stream:
        await lane.answer(fetched)
