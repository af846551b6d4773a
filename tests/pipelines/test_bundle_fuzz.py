"""Bundles that were changed at random: one clear error, nothing stored.

`NUM_MUTATIONS` of each kind, from a fixed seed; raise it for a longer trial.
"""

import io
import os
import random

import pytest
from carrying import reseal
from forging import examine, join, split

from kvboost_cli.bundle import BundleError, BundleReader
from kvboost_cli.bundle.frames import FrameKind
from kvboost_cli.pipelines.workspace import Workspace

NUM_MUTATIONS = int(os.environ.get("KVBOOST_FUZZ_MUTATIONS", "250"))


def mutated(data: bytes, source: random.Random) -> bytes:
    """Bytes changed, cut out, doubled or put in."""
    start = source.randrange(len(data))
    end = min(len(data), start + source.choice([1, 1, 1, 2, 8, 64, 1000]))
    new = source.choice([source.randbytes(end - start), b"", data[start:end] * 2, b"\0" * (end - start), b"\xff" * 8])
    return data[:start] + new + data[end:]


def test_the_bundle_itself_is_sound(bundle: bytes, guarded: Workspace) -> None:
    examine(bundle, guarded)
    assert join(*split(bundle)) == bundle
    assert {kind for kind, _ in split(bundle)[0]} == set(FrameKind) - {FrameKind.END}


def test_any_accident_is_found_when_the_bundle_is_opened(bundle: bytes) -> None:
    source = random.Random(1)
    for _ in range(NUM_MUTATIONS):
        data = mutated(bundle, source)
        if data != bundle:
            with pytest.raises(BundleError):
                BundleReader(io.BytesIO(data), "fuzz.kvb")


def test_bytes_that_were_changed_below_a_right_digest_raise_one_kind_of_error(
    bundle: bytes, guarded: Workspace
) -> None:
    source, num_refused = random.Random(2), 0
    for _ in range(NUM_MUTATIONS):
        try:
            examine(reseal(mutated(bundle, source)), guarded)
        except BundleError:
            num_refused += 1
    assert num_refused > 0.95 * NUM_MUTATIONS


def test_payloads_that_were_changed_within_right_frames_raise_one_kind_of_error(
    bundle: bytes, guarded: Workspace
) -> None:
    source, num_refused = random.Random(3), 0
    frames, *totals = split(bundle)
    for _ in range(NUM_MUTATIONS):
        number = source.randrange(len(frames))
        changed = list(frames)
        changed[number] = (changed[number][0], mutated(changed[number][1], source))
        try:
            examine(join(changed, *totals), guarded)
        except BundleError:
            num_refused += 1
    assert num_refused > 0.9 * NUM_MUTATIONS


def test_frames_in_another_order_raise_one_kind_of_error(bundle: bytes, guarded: Workspace) -> None:
    source = random.Random(4)
    frames, *totals = split(bundle)
    for _ in range(NUM_MUTATIONS):
        first, second = source.sample(range(len(frames)), 2)
        changed = list(frames)
        changed[first], changed[second] = changed[second], changed[first]
        try:
            examine(join(changed, *totals), guarded)
        except BundleError:
            continue
        swapped = {frames[first][0], frames[second][0]}
        assert swapped <= {FrameKind.RECORD, FrameKind.SHARED}, "records of one document"
