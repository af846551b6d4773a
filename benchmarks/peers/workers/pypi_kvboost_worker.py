"""The package ``kvboost`` of PyPI in a process of its own, through its public interface, with its default settings.

Its engine takes a model object, so the model is loaded here in the wanted dtype; its own loader knows only fp16, which
is slow on a CPU. The first token's time is that of the first call of ``on_token``: its own ``ttft_ms`` begins after
lookup and repair.
"""

import sys
from importlib.metadata import version
from time import perf_counter
from typing import Any

import torch
from divergence import kl_divergence
from kvboost import GenerationMode, KVBoost
from protocol import Reply, Request, serve
from transformers import AutoModelForCausalLM, AutoTokenizer

STRATEGIES = ("selective", "cacheblend")
CACHE_BYTES = 4 << 30


class Candidate:
    """One engine per repair strategy over the same model, and plain transformers beside them."""

    def __init__(self, model_dir: str, dtype: str) -> None:
        self.tokenizer = AutoTokenizer.from_pretrained(model_dir)
        self.model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=getattr(torch, dtype)).eval()
        self.engines = {name: self._make_engine(name) for name in STRATEGIES}
        self.reference = torch.empty(0)

    def _make_engine(self, strategy: str) -> Any:
        return KVBoost(self.model, self.tokenizer, max_cache_bytes=CACHE_BYTES, recompute_strategy=strategy)

    def prefill(self, request: Request) -> Reply:
        """Full prefill by transformers and greedy decoding with its own cache; keeps the first logits to compare."""
        started = perf_counter()
        ids, cache, tokens, ttft_s = torch.tensor([request["token_ids"]]), None, [], 0.0
        with torch.inference_mode():
            while len(tokens) < request["max_tokens"]:
                output = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
                cache = output.past_key_values
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
        engine = self.engines[request["strategy"]]
        engine.reset_cache()
        engine.generate(self._text(request), max_new_tokens=1)
        return {}

    def ask(self, request: Request) -> Reply:
        """Answer a prompt from what is in the cache; nothing of it is stored, so that each repeat finds the same."""
        prompt = self._text(request)
        tokens: list[int] = []
        times: list[float] = []

        def note(token: int) -> None:
            times.append(perf_counter())
            tokens.append(int(token))

        engine, mode = self.engines[request["strategy"]], GenerationMode.CHUNK_KV_REUSE
        started = perf_counter()
        result = engine.generate(
            prompt, max_new_tokens=request["max_tokens"], mode=mode, cacheable_prefix_len=0, on_token=note
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
