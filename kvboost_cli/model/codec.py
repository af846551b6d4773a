"""Text to token ids and back, and the frame that a chat template puts around a prompt.

Only ``frame`` needs transformers; text can be tokenized before torch is imported. Text from
documents and users never becomes a special token: ``<|im_end|>`` in a file is ten ordinary characters.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.decoders import DecodeStream

from .errors import ModelNotFound, ModelUnsupported
from .turns import Exchange, Message, render_turns

SYSTEM_MARK, USER_MARK = "\u241fsystem\u241f", "\u241fuser\u241f"

FIXED_DATE = "{% macro strftime_now(format) %}26 Jul 2024{% endmacro %}\n"
"""Stands before each chat template, so that today is always the day that Llama's own template falls back to.

With the real date each day would have another preamble, and no exact KV of the day before would be found. It is a macro
since transformers hands no function to a template; the newline makes the template begin on a line, and is not rendered.
"""


@dataclass(frozen=True)
class PromptFrame:
    """Token ids before the first document and after the question, from the chat template rendered once."""

    preamble: tuple[int, ...]
    closing: tuple[int, ...]


@dataclass(frozen=True)
class ExchangeIds:
    """Token ids around an earlier answer; ``rewritten`` are its own where the template changes it, else None."""

    opening: tuple[int, ...]
    ending: tuple[int, ...]
    rewritten: tuple[int, ...] | None = None


@dataclass(frozen=True)
class ConversationFrame:
    """Token ids before the first document, around each earlier answer, and after the last question."""

    preamble: tuple[int, ...]
    exchanges: tuple[ExchangeIds, ...]
    closing: tuple[int, ...]


class TextCodec:
    """A model's tokenizer, read from ``tokenizer.json``."""

    def __init__(self, model_dir: Path) -> None:
        """Raises ``ModelNotFound`` without a ``tokenizer.json``, ``ModelUnsupported`` if it cannot be read."""
        path = model_dir / "tokenizer.json"
        if not path.is_file():
            raise ModelNotFound(f"the model has no fast tokenizer: {path}")
        self._plain = _load_tokenizer(path)
        self._plain.encode_special_tokens = True
        self._config = _read_json(model_dir / "tokenizer_config.json")
        self._template = _chat_template(model_dir, self._config)

    def tokenize(self, text: str) -> tuple[list[int], list[tuple[int, int]]]:
        """Ids of plain text, and each token's character span in it."""
        encoding = self._plain.encode(text, add_special_tokens=False)
        return encoding.ids, encoding.offsets

    def token_ids(self, text: str) -> tuple[int, ...]:
        """Ids of plain text; special tokens in it stay text, and bytes that are none become replacement characters."""
        clean = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
        return tuple(self._plain.encode(clean, add_special_tokens=False).ids)

    def text(self, token_ids: Sequence[int]) -> str:
        """The text of token ids, special tokens left out."""
        return str(self._plain.decode(list(token_ids), skip_special_tokens=True))

    def stream_text(self, token_ids: Iterable[int]) -> Iterator[str]:
        """Pieces of text as tokens come; a character whose bytes span tokens waits until it is whole."""
        stream = DecodeStream(skip_special_tokens=True)
        sent: list[int] = []
        length = 0
        for token_id in token_ids:
            sent.append(token_id)
            piece = stream.step(self._plain, token_id)
            if piece:
                length += len(piece)
                yield piece
        rest = self.text(sent)[length:]
        if rest:
            yield rest

    def frame(self, system: str | None) -> PromptFrame:
        """Preamble and closing ids. Without a chat template the frame is BOS and an empty closing.

        Raises ``ModelUnsupported`` if the template has no place for the user's or the system message.
        """
        if self._template is None:
            if system is not None:
                raise ModelUnsupported("the model has no chat template, and so no place for a system message")
            return PromptFrame(self._bos_ids(), ())
        rendered = self._render([*_system_messages(system), {"role": "user", "content": USER_MARK}])
        before, user, after = rendered.partition(USER_MARK)
        if not user or USER_MARK in after:
            raise ModelUnsupported("the chat template does not show the user's message exactly once")
        preamble = self._preamble_ids(before, system)
        if preamble[:2] == self._bos_ids() * 2 != ():
            raise ModelUnsupported("the chat template puts BOS twice before the prompt")
        return PromptFrame(preamble, self._marked_ids(after))

    @property
    def has_template(self) -> bool:
        """Whether the model was made for conversations."""
        return self._template is not None

    def frame_conversation(self, system: str | None, answers: Sequence[str]) -> ConversationFrame:
        """The frame of a conversation with these earlier answers; without any it is what ``frame`` gives.

        Raises ``ModelUnsupported`` as ``frame`` does, and if the template cannot show these turns.
        """
        frame = self.frame(system)
        if not answers:
            return ConversationFrame(frame.preamble, (), frame.closing)
        if self._template is None:
            return ConversationFrame(frame.preamble, (ExchangeIds((), ()),) * len(answers), ())
        texts = render_turns(self._render, _system_messages(system), answers)
        exchanges = tuple(self._exchange_ids(exchange, system) for exchange in texts.exchanges)
        return ConversationFrame(
            self._framed_ids(texts.before, system), exchanges, self._framed_ids(texts.closing, system)
        )

    def _exchange_ids(self, exchange: Exchange, system: str | None) -> ExchangeIds:
        rewritten = None if exchange.rewritten is None else self.token_ids(exchange.rewritten)
        return ExchangeIds(
            self._framed_ids(exchange.opening, system), self._framed_ids(exchange.ending, system), rewritten
        )

    def _framed_ids(self, text: str, system: str | None) -> tuple[int, ...]:
        """Ids of the template's text, which may hold the system message or not: some write it before the last turn."""
        return self._preamble_ids(text, system) if SYSTEM_MARK in text else self._marked_ids(text)

    def _render(self, messages: Sequence[Message]) -> str:
        assert self._template is not None, "without a template there is nothing to render"
        return _render(self._template, self._config, messages)

    def _preamble_ids(self, before: str, system: str | None) -> tuple[int, ...]:
        if system is None:
            return self._marked_ids(before)
        opening, mark, rest = before.partition(SYSTEM_MARK)
        if not mark:
            raise ModelUnsupported("the chat template has no place for a system message")
        return self._marked_ids(opening) + self.token_ids(system) + self._marked_ids(rest)

    def _marked_ids(self, text: str) -> tuple[int, ...]:
        """Ids of the chat template's own text, in which special tokens are meant."""
        self._plain.encode_special_tokens = False
        try:
            return tuple(self._plain.encode(text, add_special_tokens=False).ids)
        finally:
            self._plain.encode_special_tokens = True

    def _bos_ids(self) -> tuple[int, ...]:
        bos = _token_text(self._config.get("bos_token"))
        token_id = self._plain.token_to_id(bos) if bos else None
        return () if token_id is None else (token_id,)


def _load_tokenizer(path: Path) -> Tokenizer:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception for every fault of the file
        raise ModelUnsupported(f"the tokenizer cannot be read ({error}): {path}") from error


def _read_json(path: Path) -> Mapping[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ModelUnsupported(f"the model's file is no JSON ({error}): {path}") from error
    return content if isinstance(content, dict) else {}


def _chat_template(model_dir: Path, config: Mapping[str, Any]) -> str | None:
    path = model_dir / "chat_template.jinja"
    if path.is_file():
        return path.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        return named.get("default")
    return template


def _token_text(token: Any) -> str | None:
    """A special token stands in the config as a string or as a mapping with ``content``."""
    return token.get("content") if isinstance(token, dict) else token


def _system_messages(system: str | None) -> list[Message]:
    return [] if system is None else [{"role": "system", "content": SYSTEM_MARK}]


def _render(template: str, config: Mapping[str, Any], messages: Sequence[Message]) -> str:
    from jinja2.exceptions import TemplateError
    from transformers.utils.chat_template_utils import render_jinja_template

    tokens: dict[str, Any] = {
        name: _token_text(config[name]) for name in ("bos_token", "eos_token") if config.get(name)
    }
    try:
        rendered = render_jinja_template(
            conversations=[list(messages)],
            chat_template=FIXED_DATE + template,
            add_generation_prompt=True,
            **tokens,
        )
    except TemplateError as error:
        raise ModelUnsupported(f"the chat template cannot be rendered: {error}") from error
    return str(rendered[0][0])
