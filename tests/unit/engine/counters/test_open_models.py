"""Counters by open models' vocabularies: their identity, hostile texts, and the absent library."""

import subprocess
import sys
import time

import pytest

from apportion.core.text.tokens import ModelCounter
from apportion.engine.counters import COUNTERS, is_installed

DIGESTS = {
    ModelCounter.GEMMA3: "68611593e71e36f55a5f86eccb544ce9b059716e91dc6d61db0ecf1a927f76d9",
    ModelCounter.GEMMA4: "0c919a685c506b4a7aeec567b1d13be284eb24e9f61cb05149c403027ffd24cf",
    ModelCounter.LLAMA3: "910c36455b34dcfc2f07ca06ba6130dcfc635800bdd1dfeec9fc5a96763fee65",
    ModelCounter.QWEN3: "eddef087651b179ef1456f5bc08753b5f83e8059554415c6038fc858b82a949b",
    ModelCounter.DEEPSEEK_V3: "2785e0bebf85d9beabaa5bb2c8aa5ecc9dd90e64d3a09d2948b8a8f09079631f",
    ModelCounter.MISTRAL_V3: "d75970c24352d945edd4f6cd72f6201f986b1183d0365a2b8a06eeed2702853a",
    ModelCounter.KIMI_K2: "58a103df39a5e2bf432df2ee3ab54b14416199ae30694c7dabf31dff142a950a",
    ModelCounter.KIMI_K3: "d763d87b95d9b89b60387e611775f1630cbb814648c08a3be07c26ea6a061c10",
    ModelCounter.GLM4: "e3fc7c1f21ee1ed344612cd343c72284ce6cc14582ad2c37654f0a27148a3702",
}
every_counter = pytest.mark.parametrize("name", list(ModelCounter))


def test_every_counter_is_installed_without_a_load() -> None:
    code = (
        "import sys; from apportion.engine.counters import is_installed;"
        "print(is_installed('qwen3'), 'splintr' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own interpreter and code
    assert done.stdout == "True False\n"
    assert all(map(is_installed, ModelCounter))
    assert set(ModelCounter) < set(COUNTERS)


@every_counter
def test_another_version_of_the_library_counts_the_same(name: ModelCounter) -> None:
    assert COUNTERS[name].digest == f"sha256:{DIGESTS[name]}"


@every_counter
def test_texts_of_special_tokens_count_as_ordinary_texts(name: str) -> None:
    counter = COUNTERS[name]
    assert (counter.name, counter.count("")) == (name, 0)
    assert counter.count("<|endoftext|>") > 3
    assert counter.count("<|im_start|>") > 3
    assert counter.count_many(["a", "", "Hello world"]) == [1, 0, 2]
    with pytest.raises(UnicodeEncodeError):
        counter.count("\ud800")


@every_counter
@pytest.mark.parametrize("text", ["a", " ", "=", "\n", "漢", "ab"])
def test_the_time_of_a_hostile_text_grows_with_its_length(name: str, text: str) -> None:
    count = COUNTERS[name].count
    count(text * 1_000)
    seconds = []
    for length in (1 << 14, 1 << 17):
        start = time.process_time()
        assert count(text * (length // len(text))) > 0
        seconds.append(time.process_time() - start)
    assert seconds[1] < 24 * seconds[0] + 0.1  # 64 if it were quadratic
