"""What an ask does not import: real runs of the script, told by the interpreter itself."""

import re
import subprocess
import sys

from desks import SCRIPT, Desk

NOT_FOR_AN_ANSWER = {
    # processors of pictures and sound, tokenizers, the table of all architectures
    "transformers.processing_utils", "transformers.models.auto.tokenization_auto", "torchvision",
    # the compiler, training, other machines
    "torch._dynamo", "torch._inductor", "torch.distributed.tensor", "torch.distributed.fsdp", "accelerate", "sympy",
    # what other commands use
    "matplotlib", "gguf", "pypdf", "lxml", "bs4", "scipy", "pandas", "sklearn",
}  # fmt: skip


def packages(name: str) -> set[str]:
    """A dotted name and all that it is in."""
    parts = name.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts) + 1)}


def test_an_ask_imports_what_an_answer_takes(desk: Desk) -> None:
    command = [sys.executable, "-X", "importtime", SCRIPT, "ask", "Who has the key?", "-d", "access.md", "-q"]
    done = subprocess.run(command, cwd=desk.root, env=desk.env, capture_output=True, text=True, check=True)
    imported = set(re.findall(r"^import time:.*\| +([\w.]+)", done.stderr, re.MULTILINE))
    assert {"torch", "lmdb", "tokenizers", "transformers.modeling_utils"} <= imported
    assert "transformers" not in imported, "it would read all architectures' files"
    assert set().union(*map(packages, imported)) & NOT_FOR_AN_ANSWER == set()
