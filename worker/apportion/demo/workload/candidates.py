"""Candidates that a platform would offer at a moment, for the strategy `lanes`.

All scores are computed from the history. `relevance` is `MomentQuery.relevance` of the content, `specificity`
is the nearness of the path to the edited files, and `risk_alignment` is the churn of the path. Tests are in
the lane `structure`, because they are found by names and imports.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import NamedTuple

from msgspec import UNSET, Struct, UnsetType

from apportion.demo.workload import paths
from apportion.demo.workload.history import Past, RepositoryHistory
from apportion.demo.workload.index import Index
from apportion.demo.workload.moment import Edit, Moment, MomentQuery, diff_pieces
from apportion.demo.workload.repository import Repository
from apportion.demo.workload.syntax import language
from apportion.demo.workload.text import chunks, head

_DIFF_PIECES = 16
_DIFF_PIECES_PER_FILE = 6
_RECENT_PIECES = 6
_SESSION_FILES = 4
_SYMBOLS = 12
_SYMBOLS_WEIGHED = 48
_DEFINING_FILES_MAX = 8
"""A name that more files define, such as `__init__`, is ignored."""
_GRAPHS = 4
_GRAPH_LINES = 60
_TEST_FILES = 6
_TEST_PIECES = 8
_RULE_FILES = 8
_RULE_PIECES = 6
_CONSTRAINTS = 4
_SIMILAR_PIECES = 10
_MESSAGES = 8


class WorkloadCandidate(Struct, frozen=True, omit_defaults=True):
    """A candidate of `context-request.v1`. Its fields are in the order of the JSON."""

    kind: str
    lane: str
    content: str
    created_at: str
    relevance: float
    specificity: float
    risk_alignment: float
    id: str | UnsetType = UNSET
    path: str | UnsetType = UNSET
    chunk_index: int | UnsetType = UNSET
    name: str | UnsetType = UNSET
    language: str | UnsetType = UNSET
    tags: tuple[str, ...] = ()


class _Piece(NamedTuple):
    path: str
    ordinal: int
    text: str
    name: str | UnsetType = UNSET
    tags: tuple[str, ...] = ()


class Scene:
    """A moment, with the repository, index and history at that time."""

    def __init__(
        self, repository: Repository, index: Index, history: RepositoryHistory, moment: Moment
    ) -> None:
        self.repository, self.index, self.history, self.moment = repository, index, history, moment
        self.query = MomentQuery(moment, index)
        self.edited = tuple(edit.path for edit in moment.foci)

    def of_file(self, kind: str, lane: str, piece: _Piece) -> WorkloadCandidate:
        """Return a part of a file as a candidate, with the age of the file's content."""
        oid = self.index.oid(piece.path)
        now_s = self.moment.time_s
        return WorkloadCandidate(
            kind=kind,
            lane=lane,
            content=piece.text,
            created_at=timestamp(now_s if oid is None else self.history.written_s(oid, now_s)),
            relevance=self.query.relevance(piece.text),
            specificity=paths.nearness(piece.path, self.edited),
            risk_alignment=self.history.churn(piece.path),
            path=piece.path,
            chunk_index=piece.ordinal,
            name=piece.name,
            language=language(piece.path) or UNSET,
            tags=piece.tags,
        )

    def of_commit(self, past: Past, message: str) -> WorkloadCandidate:
        """Return an earlier commit's message as a candidate, with the highest scores of its paths."""
        return WorkloadCandidate(
            kind="session_history",
            lane="history",
            content=head(message),
            created_at=timestamp(past.commit.time_s),
            relevance=self.query.relevance(head(message)),
            specificity=max((paths.nearness(path, self.edited) for path in past.paths), default=0.0),
            risk_alignment=max(map(self.history.churn, past.paths), default=0.0),
            id=f"commit:{past.commit.oid}",
        )

    def best(self, pieces: Iterable[_Piece], count: int) -> list[_Piece]:
        """Return the most relevant pieces that are not blank; ties by path and position."""
        ranked = (piece for piece in pieces if piece.text.strip())
        return sorted(ranked, key=lambda piece: (-self.query.relevance(piece.text), piece))[:count]

    def chunks(self, *files: str) -> Iterator[_Piece]:
        """Yield the chunks of files, within the parts that the index analyses."""
        for path in files:
            for ordinal, text in enumerate(self.index.chunks(self.index.oid(path))):
                yield _Piece(path, ordinal, text)


def timestamp(time_s: int) -> str:
    """Return seconds since 1970 as RFC 3339 in UTC."""
    return datetime.fromtimestamp(time_s, UTC).isoformat().replace("+00:00", "Z")


def gather(scene: Scene) -> Iterator[WorkloadCandidate]:
    """Yield the candidates of a moment, the most important first, with unique ids."""
    for kind, lane, source in _SOURCES:
        for piece in source(scene):
            yield scene.of_file(kind, lane, piece)
    yield from _messages(scene)


def _diffs(scene: Scene) -> Iterator[_Piece]:
    """Return the edits of the request, then the other edits that are not committed yet."""
    others = (edit for edit in scene.moment.pending if edit.path not in scene.edited)
    pieces = (
        _Piece(edit.path, ordinal, text, tags=(edit.status,))
        for edit in (*scene.moment.foci, *others)
        for ordinal, text in enumerate(islice(diff_pieces(edit), _DIFF_PIECES_PER_FILE))
    )
    return islice(pieces, _DIFF_PIECES)


def _recent_edits(scene: Scene) -> Iterator[_Piece]:
    """Yield the new text around the edits, then files of the session's earlier commits."""
    touched = (piece for edit in scene.moment.foci for piece in _touched(scene, edit))
    yield from islice(touched, _RECENT_PIECES)
    for path in islice(_earlier_in_session(scene), _SESSION_FILES):
        yield from scene.best(scene.chunks(path), 1)


def _touched(scene: Scene, edit: Edit) -> Iterator[_Piece]:
    line = 0
    for ordinal, text in enumerate(chunks(scene.repository.text(edit.change.new) or "")):
        end = line + max(text.count("\n"), 1)
        if any(hunk.start < end and line < hunk.end for hunk in edit.hunks) and not text.isspace():
            yield _Piece(edit.path, ordinal, text)
        line += text.count("\n")


def _earlier_in_session(scene: Scene) -> Iterator[str]:
    seen = set(scene.edited)
    for past in scene.history.recent():
        if scene.history.session_id(past.commit) == scene.moment.session_id:
            for path in past.paths:
                if path not in seen and scene.index.oid(path) is not None:
                    yield path
                seen.add(path)


def _symbols(scene: Scene) -> list[_Piece]:
    """Return definitions of the names in the changed lines: of the rarest names, the most relevant ones."""
    names = frozenset[str]().union(*(edit.names for edit in scene.moment.foci))
    defining = ((scene.index.defining(name), name) for name in names)
    known = sorted(
        (len(files), name, files) for files, name in defining if 0 < len(files) <= _DEFINING_FILES_MAX
    )
    pieces = (
        _Piece(path, ordinal, scene.index.source(path, definition), definition.name)
        for _, name, files in known
        for path in files
        for ordinal, definition in enumerate(scene.index.definitions(path))
        if definition.name == name
    )
    return scene.best(islice(pieces, _SYMBOLS_WEIGHED), _SYMBOLS)


def _graphs(scene: Scene) -> Iterator[_Piece]:
    """Yield the imports of an edited file and its importers, one per line."""
    for path in islice((path for path in scene.edited if scene.index.oid(path)), _GRAPHS):
        edges = [f"{path} -> {imported}\n" for imported in scene.index.imports(path)]
        edges += [f"{importer} -> {path}\n" for importer in scene.index.importers(path)]
        if edges:
            yield _Piece(path, 0, "".join(edges[:_GRAPH_LINES]))


def _tests(scene: Scene) -> list[_Piece]:
    """Return the most relevant tests in files that are named after an edited file or import it."""
    found = dict.fromkeys(test for path in scene.edited for test in scene.index.tests_of(path))
    files = islice((path for path in found if path not in scene.edited), _TEST_FILES)
    return scene.best((piece for path in files for piece in _cases(scene, path)), _TEST_PIECES)


def _cases(scene: Scene, path: str) -> Iterator[_Piece]:
    """Return the definitions with "test" in their name; without any, the chunks of the file."""
    cases = [
        _Piece(path, ordinal, scene.index.source(path, definition), definition.name)
        for ordinal, definition in enumerate(scene.index.definitions(path))
        if "test" in definition.name.lower()
    ]
    return iter(cases) if cases else scene.chunks(path)


def _rule_docs(scene: Scene) -> list[_Piece]:
    files = scene.index.files("rule_doc")[:_RULE_FILES]
    return scene.best(scene.chunks(*files), _RULE_PIECES)


def _constraints(scene: Scene) -> Iterator[_Piece]:
    for path in scene.index.files("constraint")[:_CONSTRAINTS]:
        yield from (piece for piece in islice(scene.chunks(path), 1) if not piece.text.isspace())


def _similar(scene: Scene) -> Iterator[_Piece]:
    pieces = scene.chunks(*scene.index.similar(scene.query.weights, scene.edited))
    return (piece for piece in scene.best(pieces, _SIMILAR_PIECES) if scene.query.relevance(piece.text))


def _messages(scene: Scene) -> Iterator[WorkloadCandidate]:
    """Yield earlier commits by specificity, then relevance; ties: the latest first."""
    messages = ((past, scene.history.message(past.commit)) for past in scene.history.recent())
    offered = [scene.of_commit(past, message) for past, message in messages if message]
    offered.sort(key=lambda candidate: (-candidate.specificity, -candidate.relevance))
    yield from offered[:_MESSAGES]


_SOURCES: tuple[tuple[str, str, Callable[[Scene], Iterable[_Piece]]], ...] = (
    ("local_diff", "local", _diffs),
    ("recent_edit", "local", _recent_edits),
    ("rule_doc", "rules", _rule_docs),
    ("constraint", "policy", _constraints),
    ("symbol_context", "structure", _symbols),
    ("dependency_graph", "structure", _graphs),
    ("test_context", "structure", _tests),
    ("semantic_match", "retrieved", _similar),
)
"""Kind, lane and pieces of the candidates that are parts of files, the most important first."""
