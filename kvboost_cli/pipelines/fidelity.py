"""What the fidelity gate found about a model, and where it is kept: the store's metadata and the user's cache.

Nothing here needs torch, so that ``kvboost stats`` can read it. An entry that is damaged, or that is of another
model, recipe or machine, is the same as none.
"""

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from blake3 import blake3

from store import ChunkStore, Snapshot, StoreError, StoreIdentity

VERSION = 1
"""Goes up when probes, bounds or the measurement change: what was found before is then measured anew."""

META_PREFIX = "fidelity/"
LATEST_NAME = f"{META_PREFIX}latest"
CACHE_FOLDER = "fidelity"


@dataclass(frozen=True)
class FidelityResult:
    """One run of the gate. ``reason`` is None if it passed; a figure is None if it was no finite number.

    Without ``machinery_passed`` what kvboost computes itself is wrong, too, and full prefill alone is to be trusted.

    KL is in nats, full prefill against reuse; ``machinery_*`` with every token computed again, the rest with
    ``repair``. ``model`` and ``recipe`` are digests in hexadecimal, ``at`` is Unix time, ``seconds`` the run's.
    """

    passed: bool
    reason: str | None
    machinery_passed: bool
    machinery_kl: float | None
    machinery_max_logit_diff: float | None
    repair: str
    kl_mean: float | None
    kl_first: float | None
    top1_agreement: float
    model: str
    recipe: str
    machine: str
    at: float
    seconds: float

    @property
    def key(self) -> "GateKey":
        """What it was measured for."""
        return GateKey(self.model, self.recipe, self.machine, self.repair)

    @property
    def figures(self) -> str:
        """What was measured, for people, with its date (UTC)."""
        day = datetime.fromtimestamp(self.at, UTC).strftime("%Y-%m-%d")
        return (
            f"KL {_number(self.kl_mean)} nats (first token {_number(self.kl_first)}) with repair {self.repair}, same "
            f"top token in {self.top1_agreement:.0%} of steps; with all computed again {_number(self.machinery_kl)}; "
            f"{day}"
        )

    def to_bytes(self) -> bytes:
        """JSON with a checksum over the result."""
        result = asdict(self)
        return (json.dumps({"blake3": _checksum(result), "result": result}, indent=2) + "\n").encode()


@dataclass(frozen=True)
class GateKey:
    """What a result holds for: model, recipe (both hexadecimal digests), machine, and the default repair."""

    model: str
    recipe: str
    machine: str
    repair: str

    @cached_property
    def digest(self) -> str:
        """A name for the result, hexadecimal."""
        return blake3(json.dumps([VERSION, *asdict(self).values()]).encode()).hexdigest()


def parse_result(data: bytes | None) -> FidelityResult | None:
    """The inverse of ``FidelityResult.to_bytes``; None for anything that it did not write."""
    try:
        entry = json.loads(data or b"null")
    except ValueError:
        return None
    result = entry.get("result") if isinstance(entry, dict) else None
    if not isinstance(result, dict) or entry.get("blake3") != _checksum(result):
        return None
    return FidelityResult(**result) if result.keys() == {field.name for field in fields(FidelityResult)} else None


def _number(value: float | None) -> str:
    return "not a number" if value is None else f"{value:.4f}"


def _checksum(result: object) -> str:
    return blake3(json.dumps([VERSION, result], sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class FidelityShelf:
    """Where results are kept: a store, if there is one, and a cache directory for the user's next store."""

    store: ChunkStore | None
    cache_dir: Path

    def find(self, key: GateKey) -> FidelityResult | None:
        """The result for this key; one that only the cache has is put into the store, too."""
        stored = self._find_in_store(key)
        if stored is not None:
            return stored
        cached = _matching(_read_file(self._cache_file(key)), key)
        if cached is not None:
            self._put_into_store(cached)
        return cached

    def keep(self, result: FidelityResult) -> None:
        """Put a result wherever that can be done: what is not kept is only measured again."""
        self._put_into_store(result)
        _write_file(self._cache_file(result.key), result.to_bytes())

    def _find_in_store(self, key: GateKey) -> FidelityResult | None:
        if self.store is None:
            return None
        with self.store.snapshot() as snapshot:
            return _matching(snapshot.meta(META_PREFIX + key.digest), key)

    def _put_into_store(self, result: FidelityResult) -> None:
        if self.store is None or self.store.readonly:
            return
        with suppress(StoreError):  # a full disk, say: the cache may still have room
            self.store.put_meta(META_PREFIX + result.key.digest, result.to_bytes())
            self.store.put_meta(LATEST_NAME, result.to_bytes())

    def _cache_file(self, key: GateKey) -> Path:
        return self.cache_dir / CACHE_FOLDER / f"{key.digest}.json"


def latest_result(snapshot: Snapshot, identity: StoreIdentity) -> FidelityResult | None:
    """The newest result in a store, if it is of the store's model and recipe."""
    result = parse_result(snapshot.meta(LATEST_NAME))
    wanted = (identity.fingerprint.hex(), identity.recipe.hex())
    return result if result is not None and (result.model, result.recipe) == wanted else None


def _matching(data: bytes | None, key: GateKey) -> FidelityResult | None:
    result = parse_result(data)
    return result if result is not None and result.key == key else None


def _read_file(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except OSError:
        return None


def _write_file(path: Path, data: bytes) -> None:
    """Whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
    except OSError:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
