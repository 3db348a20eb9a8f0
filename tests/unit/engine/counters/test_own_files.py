"""Counters by users' own files: `tokenizer.json`, models of SentencePiece, and what is refused."""

import hashlib
import io
import tomllib
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceTrainer
from support.asking import asked
from support.composing import answer, candidate, lanes_policy, request
from tokenizers import Tokenizer
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer
from typer.testing import CliRunner

import apportion
from apportion import FitError, FitOptions, LocalSessions, fit
from apportion.cli._commands import app
from apportion.core.engine import Engine
from apportion.core.errors import EventError
from apportion.core.strategies import parse_policy
from apportion.engine.assembly import create_engine
from apportion.engine.counters import COUNTERS, counters_with
from apportion.engine.counters.libraries import CounterFileError
from apportion.settings import load_settings

POLICIES = Path(apportion.__file__).parent / "engine/policies"
TEXTS = [path.read_text("utf-8") for path in sorted(Path(__file__).parents[4].glob("docs/*.md"))[:6]]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return a tokenizer of each kind, made of some pages."""
    folder = tmp_path_factory.mktemp("tokenizers")
    tokenizer = Tokenizer(BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    trainer = BpeTrainer(
        vocab_size=500, special_tokens=["<s>"], initial_alphabet=ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    tokenizer.enable_truncation(5)
    tokenizer.save(str(folder / "tokenizer.json"))
    model = io.BytesIO()
    SentencePieceTrainer.Train(
        sentence_iterator=iter("\n".join(TEXTS).splitlines()),
        model_writer=model,
        vocab_size=500,
        byte_fallback=True,
        minloglevel=2,
    )
    (folder / "pieces.model").write_bytes(model.getvalue())
    return {"json": folder / "tokenizer.json", "model": folder / "pieces.model"}


@pytest.mark.parametrize("kind", ["json", "model"])
def test_a_file_counts_the_tokens_of_its_library_and_is_known_by_its_digest(
    files: dict[str, Path], kind: str
) -> None:
    counter = counters_with(files)[f"file:{kind}"]
    assert counter.name == f"file:{kind}"
    assert counter.digest == "sha256:" + hashlib.sha256(files[kind].read_bytes()).hexdigest()
    assert counter.count("") == 0
    assert counter.count("The worker reads the topic.") > 5, "a file's truncation is not used"
    assert counter.count("a<s>") > 2, "the text of a special token is ordinary text"
    with pytest.raises(UnicodeEncodeError):
        counter.count("\ud800")


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("r.tiktoken", b"IQ== 0\n", "has ranks but no pattern to split texts"),
        ("r.txt", b"", "is not named .json or .model"),
        ("r.json", b"{}", "is no tokenizer"),
        ("r.model", b"no model", "is no tokenizer"),
        ("r/r.json", None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_no_tokenizer_is_refused(
    tmp_path: Path, name: str, content: bytes | None, reason: str
) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(CounterFileError, match=f"^file:mine: .*{reason}"):
        counters_with({"mine": tmp_path / name})["file:mine"]


@pytest.mark.parametrize("kind", ["json", "model"])
@pytest.mark.parametrize("budget", [1, 7, 40, 200])
def test_a_policy_counts_by_a_file_and_its_decision_names_it(
    files: dict[str, Path], kind: str, budget: int
) -> None:
    counters = counters_with(files)
    name = f"file:{kind}"
    contents = [part for text in TEXTS for part in text.split("\n\n")][:40]
    tiers = parse_policy({"name": "t", "version": "1", "strategy": "tiers", "counter": name})
    behaviors = [
        {"id": f"c{n}", "content": content, "kind": "directive", "activation": 0.5}
        for n, content in enumerate(contents)
    ]
    artifacts = [candidate(f"c{n}", content=content) for n, content in enumerate(contents)]
    for policy, offered in ((lanes_policy(counter=name), artifacts), (tiers, behaviors)):
        outcome = answer(request(offered, budget_tokens=budget), policy, engine=Engine("test", counters))
        used = outcome.composed.tokens.used
        assert counters[name].count(outcome.composed.text or "") == used <= budget
        assert outcome.decision.counter.name == name
        assert outcome.decision.counter.digest == counters[name].digest


def test_an_unknown_file_is_a_typed_error_at_start_and_for_each_event() -> None:
    policy = lanes_policy(counter="file:mine")
    with pytest.raises(EventError, match="unknown_counter: no counter is named file:mine; name its file"):
        answer(asked(), policy)
    with pytest.raises(EventError, match="unknown_counter"):
        Engine("test", COUNTERS).load_counters([policy])


def test_the_settings_name_files_and_the_engine_has_them(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "own.json").write_bytes(files["json"].read_bytes())
    config = tmp_path / "apportion.toml"
    config.write_text('[counters]\nmine = "own.json"\n', "utf-8")
    settings = load_settings(config=config, environment={})
    assert settings.counters == (f"mine={tmp_path / 'own.json'}",)
    assert create_engine(settings).counters["file:mine"].count("Hello") > 0
    named = load_settings(config=config, environment={"APPORTION_COUNTERS": f"b={files['model']}"})
    assert list(create_engine(named).counters)[-1] == "file:b"


def test_the_command_counts_by_a_file(files: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "text").write_text("The worker", "utf-8")
    line = ["count", "--counter", "file:mine", "--counters", f"mine={files['json']}", str(tmp_path / "text")]
    ended = CliRunner().invoke(app, line)
    count = counters_with(files)["file:json"].count("The worker")
    assert (ended.exit_code, ended.output) == (0, f"{count}\t{tmp_path / 'text'}\n")


def test_fit_counts_by_the_files_of_its_client(files: dict[str, Path]) -> None:
    counters = counters_with(files)
    chat: list[dict[str, Any]] = [{"role": "user", "content": text[:400]} for text in TEXTS]
    raw = tomllib.loads((POLICIES / "fit.toml").read_text("utf-8")) | {"name": "own", "counter": "file:json"}
    raw.pop("by_model", None)
    client = LocalSessions([parse_policy(raw)], counters=counters)
    fitted = fit(chat, 500, client=client, options=FitOptions(policy="own"))
    assert fitted.decision.counter.name == "file:json"
    assert sum(counters["file:json"].count(message["content"]) for message in fitted.messages) <= 500
    with pytest.raises(FitError, match="unknown_counter"):
        fit(chat, 500, client=LocalSessions([parse_policy(raw)]), options=FitOptions(policy="own"))
