"""What an ask does not import: real runs of the script, told by the interpreter itself."""

import re
import subprocess
import sys

from desks import SCRIPT, Desk

NOT_FOR_AN_ANSWER = {
    # the table of all architectures, tokenizers, pictures and sound
    "transformers", "transformers.models", "transformers.processing_utils",
    "transformers.models.auto.tokenization_auto",
    # the compiler, training, other machines
    "torch._dynamo", "torch._inductor", "torch.distributed.tensor", "torch.distributed.fsdp", "accelerate", "sympy",
    # what other commands use
    "matplotlib", "gguf", "pypdf", "lxml", "bs4", "scipy", "pandas", "sklearn", "torchvision",
}  # fmt: skip


def test_an_ask_imports_what_an_answer_takes(desk: Desk) -> None:
    command = [sys.executable, "-X", "importtime", SCRIPT, "ask", "Who has the key?", "-d", "access.md", "-q"]
    done = subprocess.run(command, cwd=desk.root, env=desk.env, capture_output=True, text=True, check=True)
    imported = set(re.findall(r"^import time:.*\| +([\w.]+)", done.stderr, re.MULTILINE))
    assert {"torch", "lmdb", "tokenizers"} <= imported
    assert any(name.endswith("modeling_llama") for name in imported)
    assert imported & NOT_FOR_AN_ANSWER == set()
