"""The one agent: what was fetched of a partition comes here, and is composed.

Decides nothing: the pipeline does, and it knows no Faust.
"""

import faust

from apportion.stream.pipeline.pipeline import Pipeline


async def answer_fetched(stream: faust.Stream, pipeline: Pipeline) -> None:
    """Answer or refuse all events, a partition's in their order; they come as they were fetched.

    Raises:
        StreamError, PoliciesUnreadError: an event was neither answered nor refused, or too many were refused.
    """
    pipeline.deliver = stream.channel.queue.put_nowait
    async for fetched in stream:
        await pipeline.answer(fetched)
