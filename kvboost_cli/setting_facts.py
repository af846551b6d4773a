"""What each setting is, for people: error messages, ``kvboost config`` and the documentation say it in these words."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SettingFact:
    """What a setting does, which values it takes, its default in words, and an example as it stands in a file."""

    meaning: str
    allowed: str
    default: str
    example: str


SETTING_FACTS: Mapping[str, SettingFact] = {
    "store": SettingFact(
        "where the store is", "a directory",
        ".kvboost beside the project's kvboost.toml, else in the user's data directory", '".kvboost"',
    ),
    "model": SettingFact(
        "the model; a path begins with ., ~ or /", "a directory, a catalog name or a hub id",
        "the store's; for a new store SmolLM2-135M-Instruct", '"SmolLM2-135M-Instruct"',
    ),
    "bits": SettingFact("bits per stored number", "4, 8 or 16", "the store's; for a new store 8", "8"),
    "contexts": SettingFact(
        "how many contexts to average over; 0 encodes alone", "a whole number from 0 to 64",
        "the store's; for a new store 2", "2",
    ),
    "exact": SettingFact(
        "whether documents are also kept exact", "true or false", "the store's; for a new store true", "true"
    ),
    "top_k": SettingFact("how many documents a search takes", "a whole number, 1 or more", "4", "4"),
    "order": SettingFact("the documents' order in a prompt", "given, score or exact", "given", '"given"'),
    "max_tokens": SettingFact("the longest answer, in tokens", "a whole number, 1 or more", "256", "256"),
    "temperature": SettingFact("of sampling; 0 is greedy", "a number from 0 to 100", "0", "0.0"),
    "repair": SettingFact(
        "which reused tokens are computed again", "auto, none, selective, cacheblend or question", "auto", '"auto"'
    ),
    "ratio": SettingFact(
        "share of reused tokens to compute again", "a number over 0, up to 1", "the strategy's own", "0.1"
    ),
    "system": SettingFact("the system message", "text", "the chat template's own", '"Answer in one sentence."'),
    "history": SettingFact("whether asks and the lines of chats are kept", "true or false", "true", "true"),
    "report": SettingFact("what an ask tells about its time", "full, line or none", "full", '"full"'),
    "device": SettingFact("where to compute", "auto, cuda, mps or cpu", "auto", '"auto"'),
    "dtype": SettingFact(
        "what to compute in", "auto, bfloat16, float16 or float32", "the store's; for a new store auto", '"auto"'
    ),
}  # fmt: skip
