"""Tools in the hooks: they count against the limit, and are chosen where a hook can change them."""

from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import function_tool
from agents.run_config import CallModelData, ModelInputData
from langchain.agents import create_agent
from langchain_core.language_models import GenericFakeChatModel
from langchain_core.tools import StructuredTool
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

from apportion import FitError, FitOptions, Fitted
from apportion.integrations.langchain import FitMiddleware
from apportion.integrations.litellm import FitHook
from apportion.integrations.openai_agents import FitFilter
from apportion.integrations.pydantic_ai import FitHistory

pytestmark = pytest.mark.asyncio
NAMES = [f"{topic}_{at}" for at in range(4) for topic in ("weather", "invoice", "calendar", "music", "route")]
ASK, LIMIT_TOKENS = "Which invoice is the largest?", 500
CHOOSE = FitOptions(choose_tools=True)


def described(name: str) -> str:
    return f"Finds the {name.partition('_')[0]} of the user, and returns it as a text. " * 3


def found() -> str:
    """Return nothing."""
    return ""


def is_chosen(names: list[str]) -> bool:
    """Return whether some tools are sent, in order, with those that the question needs."""
    is_in_order = names == [name for name in NAMES if name in names]
    return is_in_order and {name for name in NAMES if "invoice" in name} <= {*names} < {*NAMES}


@pytest.mark.parametrize("options", [CHOOSE, FitOptions()])
async def test_langchain(options: FitOptions) -> None:
    bound: list[list[str]] = []

    class Model(GenericFakeChatModel):
        def bind_tools(self, tools: Any, **_: Any) -> Any:
            bound.append([tool.name for tool in tools])
            return self

    hook = FitMiddleware(LIMIT_TOKENS, session_id=lambda _: "s", options=options)
    tools = [StructuredTool.from_function(found, name=name, description=described(name)) for name in NAMES]
    helper = create_agent(Model(messages=iter(["Done."])), tools=tools, middleware=[hook])
    asked: Any = {"messages": [{"role": "user", "content": ASK}]}
    if not options.choose_tools:
        with pytest.raises(FitError, match="infeasible"):
            helper.invoke(asked)
        return
    helper.invoke(asked)
    assert is_chosen(bound[-1])


async def test_pydantic_ai() -> None:
    sent: list[list[str]] = []

    def answer(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append([tool.name for tool in info.function_tools])
        return ModelResponse([TextPart("Done.")])

    fitted: list[Fitted] = []
    hook = FitHistory(LIMIT_TOKENS, session_id=lambda _: "s", options=CHOOSE, on_fitted=fitted.append)
    helper = Agent(FunctionModel(answer), capabilities=[hook])
    for name in NAMES:
        helper.tool_plain(name=name, description=described(name))(found)
    assert (await helper.run(ASK)).output == "Done."
    assert is_chosen(sent[-1])
    assert fitted[0].used_tokens <= LIMIT_TOKENS


async def test_litellm() -> None:
    functions = [{"name": name, "description": described(name), "parameters": {}} for name in NAMES]
    tools = [{"type": "function", "function": each} for each in functions]
    data = {"messages": [{"role": "user", "content": ASK}], "tools": tools, "user": "s", "max_tokens": 9000}
    hook = FitHook(LIMIT_TOKENS, options=CHOOSE)
    sent = await hook.async_pre_call_hook(None, None, data, "acompletion")
    assert is_chosen([tool["function"]["name"] for tool in sent["tools"]])


async def test_openai_agents_counts_tools_and_cannot_choose() -> None:
    tools = [function_tool(found, name_override=name, description_override=described(name)) for name in NAMES]
    helper: OpenAIAgent[Any] = OpenAIAgent(name="helper", tools=[*tools])
    given = ModelInputData([{"role": "user", "content": ASK}], None)
    fitted: list[Fitted] = []
    for limit_tokens in (LIMIT_TOKENS, 5000):
        fit = FitFilter(limit_tokens, "s", options=CHOOSE, on_fitted=fitted.append)
        try:
            await fit(CallModelData(given, helper, None))
        except FitError as error:
            assert "tools" in error.message, limit_tokens  # noqa: PT017 - the other call has none
    assert [each.limit_tokens for each in fitted] == [5000]
    assert fitted[0].used_tokens > LIMIT_TOKENS
