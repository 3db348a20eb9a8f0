"""Cases made from BEAM's and REALTALK's folders."""

import json
from pathlib import Path
from typing import Any

import pytest
from benchmarks.retrieval.beam import probing_cases
from benchmarks.retrieval.cases import Case, Shown, stale_alone, units_found, units_touched
from benchmarks.retrieval.failures import DataError
from benchmarks.retrieval.realtalk import chat_cases

MESSAGES = (
    ("user", "I have 3 interviews. ->-> 1,1"),
    ("assistant", "Good.\n\nPrepare for them."),
    ("user", "Hello.\nI have 5 interviews now. ->-> 2,N/A"),
)


def beam(folder: Path, messages: Any = MESSAGES, file: str = "chat.json", **questions: list[Any]) -> Path:
    chat = folder / "1"
    (chat / "probing_questions").mkdir(parents=True, exist_ok=True)
    turn = [{"id": number, "role": role, "content": text} for number, (role, text) in enumerate(messages)]
    (chat / file).write_text(json.dumps([{"turns": [turn[:2]]}, {"turns": [turn[2:]]}]))
    (chat / "probing_questions" / "probing_questions.json").write_text(json.dumps(questions))
    return folder


def asked(named: Any, question: str = "How many interviews do I have?") -> dict[str, Any]:
    return {"question": question, "answer": "You have 5 interviews.", "source_chat_ids": named}


def shown(*parts: tuple[int, int]) -> Shown:
    return Shown(frozenset(parts), 1)


def updated(folder: Path) -> Case:
    named = {"original_info": [0], "updated_info": [2]}
    (case,) = probing_cases(beam(folder, knowledge_update=[asked(named)]), [1])
    return case


def test_messages_are_sources_without_their_place_in_the_plan_and_lines_are_their_parts(
    tmp_path: Path,
) -> None:
    case = updated(tmp_path)
    assert [source.parts for source in case.sources] == [
        ("user: I have 3 interviews.",),
        ("assistant: Good.", "", "Prepare for them."),
        ("user: Hello.", "I have 5 interviews now."),
    ]
    assert (case.group, case.kind, list(case.newest_first)) == ("chat 01", "knowledge update", [2, 1, 0])


@pytest.mark.parametrize(
    "named", [[0, 1], [[0], 1], {"first_event": [1], "second_event": [0]}], ids=["list", "nested", "mapping"]
)
def test_evidence_is_every_line_of_the_messages_that_a_question_names(named: Any, tmp_path: Path) -> None:
    (case,) = probing_cases(beam(tmp_path, temporal_reasoning=[asked(named)]), [1])
    assert case.units == (frozenset({(0, 0)}), frozenset({(1, 0), (1, 2)}))
    assert case.evidence == {(0, 0), (1, 0), (1, 2)}
    part, whole = shown((1, 0)), shown((1, 0), (1, 2))
    assert (units_touched(case, part), units_found(case, part)) == (0.5, 0.0)
    assert (units_touched(case, whole), units_found(case, whole)) == (0.5, 0.5)
    assert stale_alone(case, whole) is None


def test_a_stale_value_counts_unless_the_line_with_the_new_one_is_shown(tmp_path: Path) -> None:
    case = updated(tmp_path)
    assert stale_alone(case, shown((0, 0))) == 1
    assert stale_alone(case, shown((0, 0), (2, 0))) == 1, "the line beside the new value"
    assert stale_alone(case, shown((0, 0), (2, 1))) == 0
    assert stale_alone(case, shown((2, 0))) == 0


def test_questions_without_messages_are_no_cases(tmp_path: Path) -> None:
    folder = beam(tmp_path, abstention=[{"question": "Who?"}], summarization=[asked([])])
    assert list(probing_cases(folder, [1])) == []


def test_a_truncated_chat_is_the_one_that_is_asked_about(tmp_path: Path) -> None:
    beam(tmp_path)
    shorter = MESSAGES[:1]
    (case,) = probing_cases(beam(tmp_path, shorter, "chat_trunecated.json", summarization=[asked([0])]), [1])
    assert len(case.sources) == 1


@pytest.mark.parametrize("questions", [{"summarization": [asked([9])]}, {"summarization": [{}]}, {}])
def test_another_folder_is_refused_with_the_place_where_the_right_one_is(
    questions: dict[str, Any], tmp_path: Path
) -> None:
    folder = beam(tmp_path, **questions)
    if not questions:
        (folder / "1" / "chat.json").write_text('["x"]')
    elif questions == {"summarization": [{}]}:
        questions["summarization"][0]["source_chat_ids"] = [0]
        beam(tmp_path, **questions)
    with pytest.raises(DataError, match="mohammadtavakoli78/BEAM"):
        list(probing_cases(folder, [1]))


def talk(folder: Path, name: str, **changes: Any) -> None:
    texts = ("Hi.", "I ski.", "I swim.", "Bye.")
    turns = [
        {"speaker": "Ann", "dia_id": f"D1:{number}", "clean_text": text} for number, text in enumerate(texts)
    ]
    question = {"question": "What are Ann's hobbies?", "answer": "skiing", "category": 1}
    chat = {"name": {}, "session_1": turns, "session_1_date_time": "1 May", "events_session_1": {}}
    (folder / name).write_text(json.dumps(chat | {"qa": [question | {"evidence": ["D1:1-D1:2."]}]} | changes))


def test_chats_come_by_their_number_and_a_range_of_messages_is_all_of_them(tmp_path: Path) -> None:
    for name in ("Chat_10_Ann_Bob.json", "Chat_2_Ann_Eve.json", "other.json"):
        talk(tmp_path, name)
    first, second = chat_cases(tmp_path)
    assert [first.group, second.group] == ["02 Chat_2_Ann_Eve", "10 Chat_10_Ann_Bob"]
    assert first.sources[1].text == "Ann: I ski."
    assert first.evidence == {(1, 0), (2, 0)}
    assert first.kind == "multi-hop"


def test_a_folder_or_file_of_something_else_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="danny911kr/REALTALK"):
        list(chat_cases(tmp_path))
    talk(tmp_path, "Chat_1_Ann_Bob.json", qa=[{}])
    with pytest.raises(DataError, match="Chat_1_Ann_Bob"):
        list(chat_cases(tmp_path))
