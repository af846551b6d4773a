"""llama.cpp, through ``llama-cpp-python``, in a process of its own: the same model as the GGUF that ours was made from.

``Llama.generate`` keeps the longest common beginning of its last prompt by itself; ``reset`` makes it forget.
"""

import sys
from importlib.metadata import version
from itertools import islice, takewhile
from time import perf_counter

from llama_cpp import Llama
from protocol import Reply, Request, serve


class Candidate:
    """One context; its cache holds the last prompt."""

    def __init__(self, gguf: str, num_threads: int, context: int) -> None:
        self.llama = Llama(gguf, n_ctx=context, n_threads=num_threads, n_threads_batch=num_threads, verbose=False)
        self.held: list[int] = []

    def prefill(self, request: Request) -> Reply:
        """The whole prompt, nothing reused."""
        self.llama.reset()
        self.held = []
        return self.ask(request)

    def ask(self, request: Request) -> Reply:
        """Greedy tokens behind a prompt, reusing what it has in common with the last one."""
        ids: list[int] = request["token_ids"]
        in_common = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(self.held, ids, strict=False)))
        times, tokens = [perf_counter()], []
        for token in islice(self.llama.generate(ids, temp=0.0), request["max_tokens"]):
            times.append(perf_counter())
            tokens.append(int(token))
        steps, self.held = len(tokens) - 1, ids
        return {
            "ttft_s": times[1] - times[0],
            "step_s": (times[-1] - times[1]) / steps if steps else None,
            "reused": in_common / len(ids),
            "token_ids": tokens,
        }


def main() -> None:
    gguf, num_threads, context = sys.argv[1:]
    candidate = Candidate(gguf, int(num_threads), int(context))
    serve({"prefill": candidate.prefill, "ask": candidate.ask}, {"version": version("llama-cpp-python")})


if __name__ == "__main__":
    main()
