"""The package ``kvboost`` of PyPI in a process of its own, through its public interface, with its default settings.

Its engine takes a model object, so the model is loaded here in the wanted dtype; its own loader knows only fp16, which
is slow on a CPU. The first token's time is that of the first call of ``on_token``: its own ``ttft_ms`` begins after
lookup and repair.
"""

import sys
from importlib.metadata import version
from time import perf_counter

import torch
from divergence import kl_divergence
from kvboost import KVBoost, RecomputeStrategy
from protocol import Reply, Request, serve
from transformers import AutoModelForCausalLM, AutoTokenizer

CACHE_BYTES = 4 << 30


class Candidate:
    """An engine whose repair strategy is set before each ask, and plain transformers with the same model beside it."""

    def __init__(self, model_dir: str, dtype: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(model_dir)
        self.model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=getattr(torch, dtype)).eval()
        self.engine = KVBoost(self.model, self.tokenizer, max_cache_bytes=CACHE_BYTES)
        self.reference = torch.empty(0)

    def prefill(self, request: Request) -> Reply:
        """Full prefill by transformers and greedy decoding with its own cache; keeps the first logits to compare."""
        started = perf_counter()
        ids, cache, tokens, ttft_s = torch.tensor([request["token_ids"]]), None, [], 0.0
        with torch.inference_mode():
            while len(tokens) < request["max_tokens"]:
                output = self.model(input_ids=ids, cache=cache, use_cache=True, logits_to_keep=1)
                cache = output.cache
                tokens.append(int(output.logits[0, -1].argmax()))
                if len(tokens) == 1:
                    ttft_s = perf_counter() - started
                    self.reference = output.logits[0, -1].float()
                if tokens[-1] == self.tokenizer.eos_token_id:
                    break
                ids = torch.tensor([tokens[-1:]])
        return {"ttft_s": ttft_s, "token_ids": tokens}

    def warm(self, request: Request) -> Reply:
        """Forget everything, then answer one prompt, whose chunks are then in the cache."""
        self.engine.reset_cache()
        self.engine.generate(self._text(request), max_new_tokens=1)
        return {}

    def ask(self, request: Request) -> Reply:
        """Answer a prompt from what is in the cache; nothing of it is stored, so that each repeat finds the same."""
        prompt = self._text(request)
        tokens: list[int] = []
        times: list[float] = []

        def note(token: int) -> None:
            times.append(perf_counter())
            tokens.append(int(token))

        self.engine.recompute_strategy = RecomputeStrategy(request["strategy"])
        started = perf_counter()
        result = self.engine.generate(
            prompt, max_new_tokens=request["max_tokens"], cacheable_prefix_len=0, on_token=note
        )
        return {
            "ttft_s": times[0] - started,
            "told_ttft_s": result.ttft_ms / 1000,
            "prompt_tokens": result.prompt_tokens,
            "reused": result.kv_reuse_ratio,
            "token_ids": tokens,
            "kl_first": kl_divergence(self.reference, torch.as_tensor(result.first_token_logits)),
        }

    def _text(self, request: Request) -> str:
        return str(self.tokenizer.decode(request["token_ids"], skip_special_tokens=False))


def main() -> None:
    model_dir, dtype = sys.argv[1:]
    candidate = Candidate(model_dir, dtype)
    hello = {
        "version": version("kvboost"),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": version("transformers"),
    }
    serve({"prefill": candidate.prefill, "warm": candidate.warm, "ask": candidate.ask}, hello)


if __name__ == "__main__":
    main()
