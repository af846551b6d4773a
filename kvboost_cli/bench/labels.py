"""Where to write the labels of points in a picture, so that they cover neither each other nor what is drawn."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

GAP = 6.0
"""Between a point and its label, in the picture's own unit."""

OUTSIDE = 20.0
"""How much worse a spot outside the picture is than one that covers something."""


@dataclass(frozen=True)
class Box:
    """An upright rectangle."""

    left: float
    bottom: float
    width: float
    height: float

    def overlap(self, other: "Box") -> float:
        """The area that both cover."""
        width = min(self.left + self.width, other.left + other.width) - max(self.left, other.left)
        height = min(self.bottom + self.height, other.bottom + other.height) - max(self.bottom, other.bottom)
        return max(0.0, width) * max(0.0, height)


@dataclass(frozen=True)
class Point:
    """A point with the size of its label."""

    x: float
    y: float
    width: float
    height: float


def place_labels(points: Sequence[Point], drawn: Sequence[Box], area: Box) -> list[Box]:
    """A box for each label, those of the lowest points first: the spot that covers least, the nearest if several do.

    ``drawn`` is what labels should not cover, and ``area`` what they should stay in.
    """
    placed: dict[int, Box] = {}
    for index in sorted(range(len(points)), key=lambda i: points[i].y):
        taken = [*drawn, *placed.values()]
        placed[index] = min(_spots(points[index]), key=lambda spot: _cost(spot, taken, area))
    return [placed[index] for index in range(len(points))]


def _spots(point: Point) -> Iterator[Box]:
    """Right, left, above and below, at growing distances."""
    for steps in range(4):
        reach = GAP + steps * point.height
        right, left = point.x + GAP, point.x - GAP - point.width
        middle, centre = point.y - point.height / 2, point.x - point.width / 2
        for lift in (0, 1, -1) if steps else (0,):
            shift = lift * steps * point.height * 0.7
            yield Box(right, middle + shift, point.width, point.height)
            yield Box(left, middle + shift, point.width, point.height)
        for x in (centre, right, left):
            yield Box(x, point.y + reach, point.width, point.height)
            yield Box(x, point.y - reach - point.height, point.width, point.height)


def _cost(spot: Box, taken: Sequence[Box], area: Box) -> float:
    inside = spot.overlap(area)
    return sum(spot.overlap(box) for box in taken) + OUTSIDE * (spot.width * spot.height - inside)
