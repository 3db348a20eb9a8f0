"""Fake providers: the cache, the usage and the cause of a miss of a session's requests, by the table's rules.

A request is a sequence of blocks. No provider publishes whether an equal text that is cut elsewhere matches;
here it does not. The rules are from copies of these pages, and from the SDKs' types, on 2026-11-27:

- `marks`: https://platform.claude.com/docs/en/build-with-claude/prompt-caching; Bedrock's CachePointBlock.
  An entry is the digest of all blocks up to a mark. Each mark looks at 20 blocks, itself included. A mark
  within the part that is read makes an entry, too, and costs nothing.
- `breakpoints`: https://developers.openai.com/api/docs/guides/prompt-caching. The guide states that the
  first 2 and the latest 50 explicit breakpoints are looked up, the API reference states the latest 80. The
  smaller set applies here. The implicit breakpoint also looks at 20 earlier ends of messages.
- `prefix`: the same page, for models before GPT-5.6. Entries of one key are on one server.
- Causes: https://platform.claude.com/docs/en/build-with-claude/cache-diagnostics, and OpenAI's page
  prompt-caching/diagnostics. Both compare the request with the previous one.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import accumulate
from posixpath import commonprefix
from typing import Any

from msgspec import Struct, structs

from apportion.core.canonical_json import canonical_json
from apportion.core.models import TTL_SECONDS, CacheRules, Ttl

LOOK_BACK = 20
FIRST, LATEST = 2, 50
WRITES = 4
PREFIX_TTL_S = 300
"""A provider without a stated lifetime keeps a beginning for at least five minutes."""


class RefusedError(Exception):
    """A request that the provider answers with status 400."""


class Block(Struct, frozen=True):
    """A block of a request: its text, tokens and place, and whether OpenAI may break behind it by itself."""

    text: str
    tokens: int
    place: str = "messages"
    mark: Ttl | None = None
    is_end: bool = False


class Usage(Struct, frozen=True):
    """The tokens of an input, the price in thousandths of a token, and the cause of a miss, if any."""

    uncached: int
    written: Mapping[Ttl | None, int]
    read: int
    price: int
    cause: str | None

    @property
    def tokens(self) -> int:
        """All tokens of the input."""
        return self.uncached + self.read + sum(self.written.values())


class FakeProvider:
    """One provider's cache, of requests that are sent by ascending time."""

    def __init__(self, rules: CacheRules, count: Callable[[str], int]) -> None:
        self._rules, self._count = rules, count
        self._alive: dict[tuple[str, int], float] = {}
        self._sent: list[tuple[str, str, float, Sequence[Block]]] = []

    def send(self, body: Mapping[str, Any], at_s: float) -> Usage:
        """Return the usage of a body of Anthropic, OpenAI (chat) or Bedrock (Converse)."""
        options = body.get("prompt_cache_options") or {}
        key, model = body.get("prompt_cache_key", ""), body.get("model", "")
        blocks = list(_blocks(body, self._count))
        return self.charge(blocks, at_s, key, model, implicit=options.get("mode") != "explicit")

    def charge(
        self, blocks: Sequence[Block], at_s: float, key: str = "", model: str = "", *, implicit: bool = True
    ) -> Usage:
        """Return the usage of blocks, and remember them."""
        ends = list(accumulate(block.tokens for block in blocks))
        before = self._sent[-1] if self._sent else None
        writes: list[tuple[Ttl | None, int]] = [(None, ends[-1])] if ends else []
        if self._rules.matching == "prefix":
            read = self._common(blocks, at_s, key)
            wanted = read if before is None else self._rounded(_tokens_shared(before[3], blocks, self._count))
        else:
            read, wanted, writes = self._matched(blocks, ends, at_s, model, implicit=implicit)
        written: dict[Ttl | None, int] = {}
        done = read
        for ttl, end in writes:
            written[ttl] = written.get(ttl, 0) + max(0, end - done)
            done = max(done, end)
        uncached = (ends[-1] if ends else 0) - done
        paid = sum(
            tokens * (1_000 if ttl is None else self._rules.write_permille[ttl])
            for ttl, tokens in written.items()
        )
        cause = _cause(before, blocks, model, is_expired=wanted > read)
        self._sent.append((key, model, at_s, blocks))
        return Usage(
            uncached, written, read, paid + read * self._rules.read_permille + uncached * 1_000, cause
        )

    def _matched(
        self, blocks: Sequence[Block], ends: Sequence[int], at_s: float, model: str, *, implicit: bool
    ) -> tuple[int, int, list[tuple[Ttl | None, int]]]:
        """Return the tokens read, those that an expired entry would have given, and the writes, ascending."""
        rules = self._rules
        marked = [index for index, block in enumerate(blocks) if block.mark]
        if rules.matching == "marks":
            _require_order(rules, [blocks[index].mark for index in marked])
            looked = {place for index in marked for place in range(max(0, index - LOOK_BACK + 1), index + 1)}
            writing = marked
        else:
            looked, writing = {*marked[:FIRST], *marked[-LATEST:]}, marked[-WRITES:]
            message_ends = [index for index, block in enumerate(blocks) if block.is_end]
            if implicit and message_ends:
                looked |= {*message_ends[-LOOK_BACK - 1 :]}
                writing = sorted({*marked[1 - WRITES :], message_ends[-1]})
        prefixes = list(
            accumulate(blocks, lambda prefix, block: hash((prefix, block.place, block.text)), initial=0)
        )
        found = [
            index
            for index in sorted(looked)
            if ends[index] >= rules.least_tokens and (model, prefixes[index + 1]) in self._alive
        ]
        alive = [index for index in found if self._alive[model, prefixes[index + 1]] >= at_s]
        default: Ttl = "5m" if "5m" in rules.write_permille else "30m"
        writes: list[tuple[Ttl | None, int]] = []
        for index in writing:
            if ends[index] >= rules.least_tokens:
                ttl = blocks[index].mark or default
                writes.append((ttl, ends[index]))
                self._alive[model, prefixes[index + 1]] = at_s + TTL_SECONDS[ttl]
        if alive:  # a read refreshes
            entry = model, prefixes[alive[-1] + 1]
            ttl = next((mark for block in blocks[alive[-1] :] if (mark := block.mark)), default)
            self._alive[entry] = max(self._alive[entry], at_s + TTL_SECONDS[ttl])
        read, wanted = (ends[indices[-1]] if indices else 0 for indices in (alive, found))
        return read, wanted, writes

    def _common(self, blocks: Sequence[Block], at_s: float, key: str) -> int:
        """Return the tokens of the longest beginning that is the same in a recent request with this key."""
        shared = [
            _tokens_shared(sent, blocks, self._count)
            for other, _, sent_s, sent in self._sent
            if other == key and at_s - sent_s <= PREFIX_TTL_S
        ]
        return self._rounded(max(shared, default=0))

    def _rounded(self, tokens: int) -> int:
        return tokens - tokens % self._rules.step_tokens if tokens >= self._rules.least_tokens else 0


def _require_order(rules: CacheRules, ttls: Sequence[Ttl | None]) -> None:
    if len(ttls) > rules.marks:
        raise RefusedError(f"{len(ttls)} marks, more than {rules.marks}")
    seconds = [TTL_SECONDS[ttl] for ttl in ttls if ttl]
    if seconds != sorted(seconds, reverse=True):
        raise RefusedError("a longer time to live comes after a shorter one")


def _cause(
    before: tuple[str, str, float, Sequence[Block]] | None,
    blocks: Sequence[Block],
    model: str,
    *,
    is_expired: bool,
) -> str | None:
    """Return the cause in the providers' words; the messages changed unless they continue the previous."""
    if before is None:
        return "first"
    if before[1] != model:
        return "model_changed"
    for place in ("tools", "system", "messages"):
        ours, theirs = (
            [block.text for block in each if block.place == place] for each in (blocks, before[3])
        )
        if ours[: len(theirs)] != theirs or (place != "messages" and ours != theirs):
            return f"{place}_changed"
    return "expired" if is_expired else None


def _tokens_shared(one: Sequence[Block], other: Sequence[Block], count: Callable[[str], int]) -> int:
    """Return the tokens of the longest common beginning of two requests, within blocks, too."""
    tokens = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours.text != theirs.text:
            return tokens + count(commonprefix([ours.text, theirs.text]))
        tokens += ours.tokens
    return tokens


def _blocks(body: Mapping[str, Any], count: Callable[[str], int]) -> Iterator[Block]:
    """Yield the blocks of a body, in the order of the prompt: tools, system, messages."""
    tools = body.get("tools") or (body.get("toolConfig") or {}).get("tools") or ()
    yield from _parts(tools, "tools", count)
    yield from _parts(body.get("system") or (), "system", count)
    for message in body["messages"]:
        role = message["role"]
        place = "system" if role in ("system", "developer") else "messages"
        content = message.get("content") or ()
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        made = list(_parts([*parts, *message.get("tool_calls", ())], place, count))
        is_end = role != "assistant"
        yield from made[:-1]
        yield from [structs.replace(block, is_end=is_end) for block in made[-1:]]


def _parts(parts: Any, place: str, count: Callable[[str], int]) -> Iterator[Block]:
    last: Block | None = None
    given: Sequence[dict[str, Any]] = [{"text": parts}] if isinstance(parts, str) else parts
    for part in given:
        if (point := part.get("cachePoint")) is not None and last is not None:  # Bedrock's mark of a block
            last = structs.replace(last, mark=point.get("ttl", "5m"))
            continue
        if last is not None:
            yield last
        plain = {name: value for name, value in part.items() if name not in _MARKS}
        mark = part.get("cache_control", {}).get("ttl", "5m") if "cache_control" in part else None
        if "prompt_cache_breakpoint" in part:
            mark = "30m"
        text = plain.get("text") or canonical_json(plain).decode()
        last = Block(text, count(text), place, mark)
    if last is not None:
        yield last


_MARKS = ("cache_control", "prompt_cache_breakpoint")
