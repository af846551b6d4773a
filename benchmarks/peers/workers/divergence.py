"""How far one next-token distribution is from another."""

from torch import Tensor


def kl_divergence(expected: Tensor, actual: Tensor) -> float:
    """KL(expected || actual) in nats, of logits [vocabulary] each."""
    p, q = expected.float().log_softmax(-1), actual.float().log_softmax(-1)
    return max(0.0, float((p.exp() * (p - q)).sum()))
