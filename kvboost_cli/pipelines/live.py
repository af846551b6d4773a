"""The live cache: what a conversation's last turn has left in the model's buffers, and how much of it serves the next.

KV depends on the tokens up to its own and on nothing behind them, so the longest common beginning of two prompts can
always be kept. Where the documents' KV was reused or repaired it stays as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..model.forward import forward_tokens
from ..model.load import LoadedModel
from .asking import Answer, Stitched
from .lookup import Prompt


@dataclass
class LiveCache:
    """A stitched prompt whose cache is kept. ``token_ids`` are those whose KV is there, from position 0 on.

    ``rope_variant`` is that of the prompt that the cache was filled for.
    """

    stitched: Stitched
    token_ids: list[int]
    rope_variant: int

    @property
    def num_front_tokens(self) -> int:
        """Tokens before the first question: preamble and documents."""
        return self.stitched.plan.tail_start

    def num_served(self, token_ids: Sequence[int], rope_variant: int) -> int:
        """How many of a prompt's first tokens need not be computed; never all, since its last one gives the logits."""
        if rope_variant != self.rope_variant:
            return 0
        pairs = enumerate(zip(token_ids, self.token_ids, strict=False))
        common = next((place for place, (one, other) in pairs if one != other), len(self.token_ids))
        return min(common, len(token_ids) - 1)

    def prefill(self, model: LoadedModel, prompt: Prompt, num_kept: int, capacity: int) -> Tensor:
        """Compute a prompt behind its first ``num_kept`` tokens; logits [vocabulary] after its last one.

        Should it be interrupted, those first tokens are what the cache holds.
        """
        del self.token_ids[num_kept:]
        kv, ids = self.stitched.kv, prompt.token_ids
        kv.reserve(capacity, num_kept)
        rest = torch.tensor([ids[num_kept:]], device=model.device)
        return forward_tokens(model, rest, range(num_kept, len(ids)), kv)[0, -1]


def keep_live(model: LoadedModel, answer: Answer) -> LiveCache:
    """What an answer leaves in its cache. Its last token was perhaps not computed, so it does not count."""
    token_ids = answer.stitched.prompt.token_ids
    variant = model.rope_variant(len(token_ids))
    return LiveCache(answer.stitched, [*token_ids, *answer.token_ids[:-1]], variant)
