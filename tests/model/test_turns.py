"""The frame of a conversation: the token ids that the model's own template gives for it, turn by turn."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from test_codec import CHATML, LLAMA3_LIKE, USER_ONLY, codec_with, template_ids

from kvboost_cli.model.codec import ConversationFrame, TextCodec
from kvboost_cli.model.errors import ModelUnsupported

# As Mistral's: the system message stands in the last user's turn.
LATE_SYSTEM = (
    "{% if messages[0]['role'] == 'system' %}{% set system = messages[0]['content'] + '\n\n' %}"
    "{% set rest = messages[1:] %}{% else %}{% set system = '' %}{% set rest = messages %}{% endif %}"
    "{% for m in rest %}{% if m['role'] == 'user' %}<|im_start|>{{ (system if loop.last else '') + m['content'] }}"
    "<|im_end|>{% else %}{{ m['content'] }}<|endoftext|>{% endif %}{% endfor %}"
)
# As Qwen3's: of an earlier answer only what stands behind the thoughts.
WITHOUT_THOUGHTS = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'].split('</think>')[-1].lstrip('\n') }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
REPEATING = "{% for m in messages %}{{ m['content'] }}{% endfor %}{{ messages[0]['content'] if messages|length > 1 }}"
QUESTIONS = ("Which port?", "And why?", "Since when?")
ANSWERS = ("Port 80.", " It is the old one.\n")


def spliced(codec: TextCodec, frame: ConversationFrame, answers: Sequence[str]) -> list[int]:
    ids = list(frame.preamble)
    for question, answer, around in zip(QUESTIONS, answers, frame.exchanges, strict=False):
        generated = codec.token_ids(answer) if around.rewritten is None else around.rewritten
        ids += [*codec.token_ids(question), *around.opening, *generated, *around.ending]
    return [*ids, *codec.token_ids(QUESTIONS[len(answers)]), *frame.closing]


def conversation(system: str | None, answers: Sequence[str]) -> list[tuple[str, str]]:
    messages = [] if system is None else [("system", system)]
    for question, answer in zip(QUESTIONS, answers, strict=False):
        messages += [("user", question), ("assistant", answer)]
    return [*messages, ("user", QUESTIONS[len(answers)])]


@pytest.mark.parametrize("template", [CHATML, LLAMA3_LIKE, LATE_SYSTEM, WITHOUT_THOUGHTS])
@pytest.mark.parametrize("system", [None, "You are terse."])
@pytest.mark.parametrize("num_answers", [0, 1, 2])
def test_a_conversation_is_what_the_chat_template_makes_of_it(
    tmp_path: Path, template: str, system: str | None, num_answers: int
) -> None:
    codec = codec_with(tmp_path, template, bos_token="<|endoftext|>")
    answers = [answer.strip() for answer in ANSWERS[:num_answers]]
    frame = codec.frame_conversation(system, answers)
    assert spliced(codec, frame, answers) == template_ids(tmp_path, *conversation(system, answers))
    assert [around.rewritten for around in frame.exchanges] == [None] * num_answers


@pytest.mark.model
@pytest.mark.parametrize("system", [None, "You are terse."])
def test_the_default_models_conversation_is_that_of_its_template(default_model_dir: Path, system: str | None) -> None:
    codec = TextCodec(default_model_dir)
    frame = codec.frame_conversation(system, ANSWERS)
    assert spliced(codec, frame, ANSWERS) == template_ids(default_model_dir, *conversation(system, ANSWERS))


def test_without_earlier_answers_it_is_the_frame_of_one_question(tmp_path: Path) -> None:
    codec = codec_with(tmp_path, CHATML)
    frame, one = codec.frame_conversation("Be kind.", ()), codec.frame("Be kind.")
    assert (frame.preamble, frame.closing, frame.exchanges) == (one.preamble, one.closing, ())


def test_an_answer_that_is_only_trimmed_keeps_its_ids(tmp_path: Path) -> None:
    frame = codec_with(tmp_path, LLAMA3_LIKE).frame_conversation(None, ANSWERS)
    assert [around.rewritten for around in frame.exchanges] == [None, None]


def test_an_answer_that_the_template_cuts_gets_the_ids_of_what_is_left(tmp_path: Path) -> None:
    codec = codec_with(tmp_path, WITHOUT_THOUGHTS)
    answers = ("<think>80 or 81?</think>\n\nPort 80.",)
    frame = codec.frame_conversation(None, answers)
    assert frame.exchanges[0].rewritten == codec.token_ids("Port 80.")
    assert spliced(codec, frame, answers) == template_ids(tmp_path, *conversation(None, answers))


def test_without_a_template_turns_have_nothing_around_them(tmp_path: Path) -> None:
    frame = codec_with(tmp_path, None, bos_token="<|endoftext|>").frame_conversation(None, ANSWERS)
    assert (frame.preamble, frame.closing) == ((0,), ())
    assert {(around.opening, around.ending, around.rewritten) for around in frame.exchanges} == {((), (), None)}


@pytest.mark.parametrize(
    ("template", "answer", "fact"),
    [
        (USER_ONLY, "Port 80.", "not show the turns"),
        (REPEATING, "a", "more than once"),
        (CHATML, "an answer with \u241fuser 1\u241f in it", "between its own marks|more than once"),
    ],
)
def test_turns_that_cannot_be_told_apart_are_refused(tmp_path: Path, template: str, answer: str, fact: str) -> None:
    codec = codec_with(tmp_path, template)
    with pytest.raises(ModelUnsupported, match=fact):
        codec.frame_conversation(None, (answer,))
