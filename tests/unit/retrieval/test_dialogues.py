"""Cases made from LoCoMo's and QMSum's files."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.retrieval.cases import Shown, all_answered, all_touched, all_whole
from benchmarks.retrieval.dialogues import dialogue_cases, is_for_tuning
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.meetings import meeting_cases
from benchmarks.retrieval.sentences import sentences_of

CONVERSATION = {
    "speaker_a": "Ann",
    "session_1_date_time": "1 May",
    "session_1": [
        {"speaker": "Ann", "dia_id": "D1:1", "text": "Hi! I bought\n a kayak. Red ones are best."},
        {"speaker": "Bob", "dia_id": "D1:2", "text": "Nice.", "blip_caption": "a photo of a lake"},
    ],
    "session_10": [{"speaker": "Bob", "dia_id": "D10:1", "text": "Bye."}],
    "session_2": [{"speaker": "Ann", "dia_id": "D2:1", "text": "I sold it."}],
}


def question(**fields: Any) -> dict[str, Any]:
    return {
        "question": "What did Ann buy?",
        "answer": "a kayak",
        "evidence": ["D1:1"],
        "category": 4,
    } | fields


def written(folder: Path, *questions: dict[str, Any], dialogues: int = 1) -> Path:
    file = folder / "locomo10.json"
    dialogue = {"sample_id": "conv", "conversation": CONVERSATION, "qa": questions}
    file.write_text(json.dumps([dialogue] * dialogues))
    return file


def test_turns_are_sources_in_the_order_of_time_and_their_parts_are_sentences(tmp_path: Path) -> None:
    (case,) = dialogue_cases(written(tmp_path, question()))
    assert [source.name for source in case.sources] == ["D1:1", "D1:2", "D2:1", "D10:1"]
    assert case.sources[0].parts == ("Ann: Hi!", "I bought a kayak.", "Red ones are best.")
    assert case.sources[1].text == "Bob: Nice. [a photo of a lake]"
    assert list(case.newest_first) == [3, 2, 1, 0]


def test_evidence_is_every_sentence_of_the_turns_however_their_names_are_joined(tmp_path: Path) -> None:
    (case,) = dialogue_cases(written(tmp_path, question(evidence=["D1:1; D:10:01", "D9:9"], category=1)))
    assert case.kind == "multi-hop"
    assert case.evidence == {(0, 0), (0, 1), (0, 2), (3, 0)}


def test_a_question_without_an_answer_or_without_a_turn_is_no_case(tmp_path: Path) -> None:
    file = written(tmp_path, question(category=5), question(evidence=["D"]), question(evidence=[]))
    assert list(dialogue_cases(file)) == []


def test_the_answering_sentence_is_distinguished_within_its_turn(
    tmp_path: Path,
) -> None:
    (case,) = dialogue_cases(written(tmp_path, question()))
    beside, answering, whole = (
        Shown(frozenset(parts), 1) for parts in ({(0, 2)}, {(0, 1)}, {(0, 0), (0, 1), (0, 2)})
    )
    assert [measure(case, beside) for measure in (all_touched, all_answered, all_whole)] == [1, 0, 0]
    assert [measure(case, answering) for measure in (all_touched, all_answered, all_whole)] == [1, 1, 0]
    assert [measure(case, whole) for measure in (all_touched, all_answered, all_whole)] == [1, 1, 1]


def test_only_the_first_three_dialogues_are_for_tuning(tmp_path: Path) -> None:
    cases = dialogue_cases(written(tmp_path, question(), dialogues=5))
    assert list(map(is_for_tuning, cases)) == [True, True, True, False, False]


def test_the_spans_of_a_meeting_are_its_turns_and_whole_meetings_are_no_question(tmp_path: Path) -> None:
    file = tmp_path / "test.jsonl"
    meeting = {
        "meeting_transcripts": [
            {"speaker": "A", "content": "One. Two."},
            {"speaker": "B", "content": "Three."},
        ],
        "general_query_list": [{"query": "Summarize."}],
        "specific_query_list": [
            {"query": "What did B say?", "relevant_text_span": [["0", "1"], ["1", "7"]]},
            {"query": "What else?", "relevant_text_span": []},
        ],
    }
    file.write_text(json.dumps(meeting) + "\n")
    (case,) = meeting_cases(file)
    assert case.evidence == {(0, 0), (0, 1), (1, 0)}


@pytest.mark.parametrize("load", [dialogue_cases, meeting_cases])
@pytest.mark.parametrize("text", ["no json", "[1]", '[{"qa": []}]'])
def test_another_file_is_refused_with_the_place_where_the_right_one_is(
    load: Any, text: str, tmp_path: Path
) -> None:
    file = tmp_path / "other"
    file.write_text(text)
    with pytest.raises(DataError, match=r"snap-research/locomo|Yale-LILY/QMSum"):
        list(load(file))


def test_a_sentence_ends_at_its_mark_and_not_inside_a_number() -> None:
    assert sentences_of(' It cost 3.50. "Really?"  Yes ') == ("It cost 3.50.", '"Really?', "Yes")
    assert sentences_of(" \n") == ()
