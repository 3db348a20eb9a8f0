"""The hook for the OpenAI Agents SDK: a filter of each model's input."""

from collections.abc import Callable
from typing import Any, Unpack

from agents.run_config import CallModelData, ModelInputData
from msgspec.structs import replace

from apportion.doors.fitting import FitOptions
from apportion.doors.fitting.shapes import read_chat
from apportion.doors.fitting.shapes.responses import Responses
from apportion.integrations.fitter import Fitter, FitterSettings


class FitFilter:
    """A `call_model_input_filter` of a `RunConfig` that sends the items that fit into a limit.

    The instructions count, and are always kept. A session of the SDK keeps all items. The items of a response
    (reasoning, calls, messages) stay together.
    """

    def __init__(
        self,
        limit_tokens: int | None,
        session_id: str | Callable[[CallModelData[Any]], str],
        **settings: Unpack[FitterSettings],
    ) -> None:
        """Start with a limit of instructions, items and the agent's own tools.

        A filter cannot change the tools. Those of MCP servers and handoffs do not count.

        `session_id` is an id, or a function that returns it for a call's data. The SDK does not give its
        session to a filter. The first agent that calls the filter has the session of a given id. The session
        of each other agent, which a handoff or a tool runs, is `ID/NAME`, with the agent's name. A function
        names the sessions of all agents.
        """
        options = replace(settings.pop("options", FitOptions()), choose_tools=False)
        remedy = "give the filter the id of the SDK's session"
        self.fitter = Fitter(limit_tokens, {**settings, "options": options}, session_remedy=remedy)
        self._session_id = session_id
        self._first_agent: str | None = None

    async def __call__(self, data: CallModelData[Any]) -> ModelInputData:
        """Return the model's input with the items that fit."""
        given = data.model_data
        with self.fitter.noting_failures():
            if given.input:
                fields = ("name", "description", "params_json_schema")
                tools = [{name: getattr(tool, name, None) for name in fields} for tool in data.agent.tools]
                body = {"input": given.input, "instructions": given.instructions, "tools": tools}
                model = getattr(data.agent.model, "model", data.agent.model)
                chat = read_chat(body, Responses())
                fitted = await self.fitter.fit_async(chat, self._session_of(data), model)
                return ModelInputData(fitted.messages, fitted.system)
        return given

    def _session_of(self, data: CallModelData[Any]) -> str:
        if not isinstance(self._session_id, str):
            return self._session_id(data)
        self._first_agent = self._first_agent or data.agent.name
        is_first = not self._session_id or data.agent.name == self._first_agent
        return self._session_id if is_first else f"{self._session_id}/{data.agent.name}"
