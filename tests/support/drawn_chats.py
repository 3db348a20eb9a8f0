"""Histories of every shape of a chat, drawn for property tests, and damages to them.

A history is drawn first, and then written in a shape. Its last round has no answer.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Any, ClassVar, NamedTuple

from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from support.chat_rules import ITEMS, Body, items_of

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJSVFT0YK" * 80
"""Base64 of more than 1,024 characters."""


class Features(NamedTuple):
    """The parts that histories may have besides texts, calls and results."""

    thinking: bool = False
    server_tools: bool = False
    media: bool = False
    block_results: bool = False
    extras: bool = False


EVERYTHING = Features(*[True] * len(Features._fields))


class Step(NamedTuple):
    """Calls of tools and their results, after an optional text."""

    ids: tuple[str, ...]
    results: tuple[str, ...]
    text: str
    thinks: bool
    searches: bool
    in_blocks: bool


class Round(NamedTuple):
    """A question of the user, the steps of the assistant, and its answer; None in the last round."""

    question: str
    media: str
    extra: bool
    steps: tuple[Step, ...]
    answer: str | None


class Drawn(NamedTuple):
    """A body, and the part of it that is always sent."""

    shape: str
    body: Body
    always: Body


_MESSAGES: dict[str, type[BaseMessage]] = {
    "system": SystemMessage,
    "human": HumanMessage,
    "ai": AIMessage,
    "tool": ToolMessage,
}
_words = st.sampled_from(["word ", "é", "漢字", "שלום ", "line\n", "x" * 30, "a.py "])
texts = st.builds(
    lambda parts, times: "t" + "".join(parts) * times,
    st.lists(_words, min_size=1, max_size=6),
    st.sampled_from([1, 1, 1, 20, 200]),
)


@st.composite
def chats(draw: st.DrawFn, shape: str, features: Features) -> Drawn:
    """Return a valid chat of a shape."""
    rounds, count = [], 0
    for left in reversed(range(draw(st.integers(1, 5)))):
        steps = []
        for _ in range(draw(st.integers(0, 2))):
            results = tuple(draw(st.lists(texts, min_size=1, max_size=3)))
            ids = tuple(f"c{count + index}" for index in range(len(results)))
            count += len(ids)
            text = draw(st.just("") | texts)
            flags = [
                on and draw(st.booleans())
                for on in (features.thinking, features.server_tools, features.block_results)
            ]
            steps.append(Step(ids, results, text, *flags))
        media = draw(st.sampled_from(["", "image", "document"])) if features.media else ""
        extra = features.extras and draw(st.booleans())
        rounds.append(Round(draw(texts), media, extra, tuple(steps), draw(texts) if left else None))
    system = draw(st.just("") | texts)
    writer = _WRITERS[shape]
    written = [
        (writer.question(one), [writer.step(step) for step in one.steps], writer.answer(one, index))
        for index, one in enumerate(rounds)
    ]
    items = [
        item for question, steps, answer in written for part in ([question], *steps, answer) for item in part
    ]
    question, steps, _ = written[-1]
    always = [question, *(steps[-1] if steps else [])]
    return Drawn(shape, writer.body(system, items), writer.body(system, always))


damages = st.lists(
    st.tuples(
        st.sampled_from(["drop", "repeat", "move", "empty"]),
        st.booleans(),
        st.integers(0, 30),
        st.integers(0, 30),
    ),
    min_size=1,
    max_size=3,
)


def damaged(shape: str, body: Body, done: list[tuple[str, bool, int, int]]) -> Body:
    """Return a body whose messages or blocks are dropped, repeated, moved and emptied."""
    items = deepcopy(items_of(shape, body))
    for kind, within, first, second in done:
        place, target = first % len(items), items
        content = "parts" if shape == "gemini" else "content"
        if within and isinstance(items[place], dict) and isinstance(items[place].get(content), list):
            target = items[place][content]
        if not target or (kind == "drop" and target is items and len(items) == 1):
            continue
        at, to = first % len(target), second % len(target)
        if kind == "drop":
            del target[at]
        elif kind == "repeat":
            target.insert(to, deepcopy(target[at]))
        elif kind == "move":
            target.insert(to, target.pop(at))
        elif target is not items and "text" in target[at]:
            target[at]["text"] = ""
        elif target is items and content in items[at]:
            items[at][content] = "" if isinstance(items[at][content], str) else []
    if shape == "langchain":
        return message_objects(items)
    return {**body, ITEMS[shape]: items} if isinstance(body, dict) else items


def message_objects(items: Sequence[dict[str, Any]]) -> list[BaseMessage]:
    """Return dicts of LangChain's messages as objects."""
    return [_MESSAGES[item["type"]](**item) for item in items]


class _OpenAI:
    """Messages of OpenAI's chat completions."""

    system: ClassVar[Any] = {"role": "system"}
    user: ClassVar[Any] = {"role": "user"}
    assistant: ClassVar[Any] = {"role": "assistant"}
    tool: ClassVar[Any] = {"role": "tool"}
    extra: ClassVar[Any] = {"name": "Ada", "metadata": {"turn": 1}}

    def body(self, system: str, items: list[Any]) -> Body:
        return [*([{**self.system, "content": system}] if system else []), *items]

    def question(self, one: Round) -> Any:
        parts = {
            "image": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
            "document": {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}},
        }
        content: Any = one.question
        if one.media:
            content = [{"type": "text", "text": one.question}, parts[one.media]]
        return {**self.user, "content": content, **(self.extra if one.extra else {})}

    def call(self, name: str) -> Any:
        return {"id": name, "type": "function", "function": {"name": "read", "arguments": '{"path": "a"}'}}

    def step(self, step: Step) -> list[Any]:
        calls = [self.call(name) for name in step.ids]
        asked = {**self.assistant, "content": step.text, "tool_calls": calls}
        pairs = zip(step.ids, step.results, strict=True)
        return [
            asked,
            *[{**self.tool, "tool_call_id": name, "content": _result(text, step)} for name, text in pairs],
        ]

    def answer(self, one: Round, _: int) -> list[Any]:
        return [] if one.answer is None else [{**self.assistant, "content": one.answer}]


class _LangChain(_OpenAI):
    """LangChain's message objects."""

    system: ClassVar[Any] = {"type": "system"}
    user: ClassVar[Any] = {"type": "human"}
    assistant: ClassVar[Any] = {"type": "ai"}
    tool: ClassVar[Any] = {"type": "tool"}
    extra: ClassVar[Any] = {"name": "Ada", "additional_kwargs": {"turn": 1}}

    def body(self, system: str, items: list[Any]) -> Body:
        return message_objects(super().body(system, items))

    def call(self, name: str) -> Any:
        return {"id": name, "type": "tool_call", "name": "read", "args": {"path": "a"}}


class _AISDK(_OpenAI):
    """Messages of the AI SDK. Searches are of the provider, and come with an approval of the first call."""

    extra: ClassVar[Any] = {"providerOptions": {"openai": {"turn": 1}}}

    def body(self, system: str, items: list[Any]) -> Body:
        return {"messages": items, **({"system": system} if system else {})}

    def question(self, one: Round) -> Any:
        parts: dict[str, list[Any]] = {
            "": [],
            "image": [{"type": "image", "image": PNG, "mediaType": "image/png"}],
            "document": [{"type": "file", "data": PDF, "mediaType": "application/pdf"}],
        }
        content = [{"type": "text", "text": one.question}, *parts[one.media]]
        return {**self.user, "content": content, **(self.extra if one.extra else {})}

    def step(self, step: Step) -> list[Any]:
        def call(name: str) -> Any:
            return {"type": "tool-call", "toolCallId": name, "toolName": "read", "input": {"path": "a"}}

        def result(name: str, text: str) -> Any:
            kind = "content" if step.in_blocks else "text"
            output = {"type": kind, "value": _result(text, step)}
            return {"type": "tool-result", "toolCallId": name, "toolName": "read", "output": output}

        own, approval = f"p{step.ids[0]}", {"approvalId": f"a{step.ids[0]}"}
        asked: list[Any] = [{"type": "reasoning", "text": "hm"}] if step.thinks else []
        asked += [{"type": "text", "text": step.text}] if step.text else []
        asked += [{**call(own), "providerExecuted": True}, result(own, "found")] if step.searches else []
        asked += map(call, step.ids)
        results = list(map(result, step.ids, step.results))
        if not step.searches:
            return [{**self.assistant, "content": asked}, {**self.tool, "content": results}]
        asked.append({"type": "tool-approval-request", **approval, "toolCallId": step.ids[0]})
        answer = {"type": "tool-approval-response", **approval, "approved": True}
        answers = [[answer], results] if step.in_blocks else [[answer, *results]]
        return [
            {**self.assistant, "content": asked},
            *[{**self.tool, "content": content} for content in answers],
        ]


class _Responses:
    """Items of OpenAI's Responses."""

    def body(self, system: str, items: list[Any]) -> Body:
        return {"input": items, **({"instructions": system} if system else {})}

    def question(self, one: Round) -> Any:
        parts: dict[str, list[Any]] = {
            "": [],
            "image": [{"type": "input_image", "detail": "auto", "image_url": f"data:image/png;base64,{PNG}"}],
            "document": [{"type": "input_file", "filename": "a.pdf", "file_data": PDF}],
        }
        return {
            "role": "user",
            "content": [{"type": "input_text", "text": one.question}, *parts[one.media]],
        }

    def step(self, step: Step) -> list[Any]:
        items: list[Any] = []
        own = step.ids[0]
        if step.searches:
            call = {"server_label": "docs", "name": "find", "arguments": "{}"}
            items += [
                {"type": "mcp_approval_request", "id": f"mcpr_{own}", **call},
                {"type": "mcp_approval_response", "approval_request_id": f"mcpr_{own}", "approve": True},
                {"type": "mcp_call", "id": f"mcp_{own}", "approval_request_id": f"mcpr_{own}", **call},
            ]
        if step.thinks:
            summary = [{"type": "summary_text", "text": "hm"}]
            items.append({"type": "reasoning", "id": f"rs_{own}", "summary": summary})
        called = {"type": "function_call", "name": "read", "arguments": "{}"}
        items += [{**called, "id": f"fc_{name}", "call_id": name} for name in step.ids]
        for name, text in zip(step.ids, step.results, strict=True):
            output = [{"type": "input_text", "text": text}] if step.in_blocks else text
            items.append({"type": "function_call_output", "call_id": name, "output": output})
        return items

    def answer(self, one: Round, index: int) -> list[Any]:
        if one.answer is None:
            return []
        content = [{"type": "output_text", "text": one.answer, "annotations": []}]
        head = {"type": "message", "id": f"msg_{index}", "role": "assistant", "status": "completed"}
        return [{**head, "content": content}]


class _Anthropic:
    """Messages of Anthropic."""

    def body(self, system: str, items: list[Any]) -> Body:
        return {"messages": items, **({"system": system} if system else {})}

    def question(self, one: Round) -> Any:
        if not (one.media or one.extra):
            return {"role": "user", "content": one.question}
        block: dict[str, Any] = {"type": "text", "text": one.question}
        if one.extra:
            block["cache_control"] = {"type": "ephemeral"}
        data = {"image": ("image/png", PNG), "document": ("application/pdf", PDF)}
        blocks = [block]
        if one.media:
            kind, given = data[one.media]
            source = {"type": "base64", "media_type": kind, "data": given}
            blocks.append({"type": one.media, "source": source})
        return {"role": "user", "content": blocks}

    def step(self, step: Step) -> list[Any]:
        blocks: list[Any] = []
        if step.thinks:
            blocks.append({"type": "thinking", "thinking": "hm", "signature": "c2ln"})
        if step.searches:
            own, called = f"srvtoolu_{step.ids[0]}", {"name": "web_search", "input": {"query": "a"}}
            blocks += [
                {"type": "server_tool_use", "id": own, **called},
                {"type": "web_search_tool_result", "tool_use_id": own, "content": []},
            ]
        if step.text:
            blocks.append({"type": "text", "text": step.text})
        called = {"type": "tool_use", "name": "read", "input": {"path": "a"}}
        blocks += [{**called, "id": name} for name in step.ids]
        results = [
            {"type": "tool_result", "tool_use_id": name, "content": _result(text, step)}
            for name, text in zip(step.ids, step.results, strict=True)
        ]
        return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]

    def answer(self, one: Round, _: int) -> list[Any]:
        return [] if one.answer is None else [{"role": "assistant", "content": one.answer}]


class _Gemini:
    """Contents of Gemini."""

    def body(self, system: str, items: list[Any]) -> Body:
        instruction = {"systemInstruction": {"parts": [{"text": system}]}} if system else {}
        return {"contents": items, **instruction}

    def question(self, one: Round) -> Any:
        data = {"image": ("image/png", PNG), "document": ("application/pdf", PDF)}
        parts: list[Any] = [{"text": one.question}]
        if one.media:
            kind, given = data[one.media]
            parts.append({"inlineData": {"mimeType": kind, "data": given}})
        return {"role": "user", "parts": parts}

    def step(self, step: Step) -> list[Any]:
        parts: list[Any] = [{"text": step.text}] if step.text else []
        signed = {"thoughtSignature": "c2ln"} if step.thinks else {}
        for name in step.ids:
            parts.append({"functionCall": {"id": name, "name": "read", "args": {"path": "a"}}, **signed})
            signed = {}
        results = [
            {"functionResponse": {"id": name, "name": "read", "response": {"output": text}}}
            for name, text in zip(step.ids, step.results, strict=True)
        ]
        return [{"role": "model", "parts": parts}, {"role": "user", "parts": results}]

    def answer(self, one: Round, _: int) -> list[Any]:
        return [] if one.answer is None else [{"role": "model", "parts": [{"text": one.answer}]}]


class _Converse:
    """Messages of Bedrock's Converse; bytes are base64, as in its JSON."""

    def body(self, system: str, items: list[Any]) -> Body:
        return {"messages": items, **({"system": [{"text": system}]} if system else {})}

    def question(self, one: Round) -> Any:
        image = {"image": {"format": "png", "source": {"bytes": PNG}}}
        document = {"document": {"format": "pdf", "name": "a", "source": {"bytes": PDF}}}
        media = {"": [], "image": [image], "document": [document]}[one.media]
        return {"role": "user", "content": [{"text": one.question}, *media]}

    def step(self, step: Step) -> list[Any]:
        thought = {"reasoningContent": {"reasoningText": {"text": "hm", "signature": "c2ln"}}}
        blocks: list[Any] = [thought] if step.thinks else []
        if step.text:
            blocks.append({"text": step.text})
        called = {"name": "read", "input": {"path": "a"}}
        blocks += [{"toolUse": {**called, "toolUseId": name}} for name in step.ids]
        results = [
            {"toolResult": {"toolUseId": name, "content": [{"text": text}]}}
            for name, text in zip(step.ids, step.results, strict=True)
        ]
        return [{"role": "assistant", "content": blocks}, {"role": "user", "content": results}]

    def answer(self, one: Round, _: int) -> list[Any]:
        return [] if one.answer is None else [{"role": "assistant", "content": [{"text": one.answer}]}]


def _result(text: str, step: Step) -> Any:
    return [{"type": "text", "text": text}] if step.in_blocks else text


_WRITERS: dict[str, Any] = {
    "openai": _OpenAI(),
    "responses": _Responses(),
    "anthropic": _Anthropic(),
    "gemini": _Gemini(),
    "converse": _Converse(),
    "langchain": _LangChain(),
    "ai_sdk": _AISDK(),
}
