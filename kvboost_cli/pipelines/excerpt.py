"""Which chunks of a long document go into the prompt. Integers only."""

from collections.abc import Sequence


def choose_places(chunk_tokens: Sequence[int], best_places: Sequence[int], max_tokens: int) -> list[int]:
    """Places of the chunks to take, ascending, at most ``max_tokens`` together but at least one.

    The best places come first, then the chunks around them, nearest first. Chunks of 100 tokens with the best at
    place 5 and room for 300 give ``[4, 5, 6]``. A document that fits is taken whole.
    """
    if sum(chunk_tokens) <= max_tokens:
        return list(range(len(chunk_tokens)))
    known = [place for place in best_places if place < len(chunk_tokens)] or [0]
    others = sorted(
        set(range(len(chunk_tokens))) - set(known),
        key=lambda place: (min(abs(place - best) for best in known), place),
    )
    taken, total = [known[0]], chunk_tokens[known[0]]
    for place in dict.fromkeys([*known[1:], *others]):
        if total + chunk_tokens[place] <= max_tokens:
            taken.append(place)
            total += chunk_tokens[place]
    return sorted(set(taken))
