"""What zstd takes off stored layers of the default model: plain, bit-shuffled, with a trained dictionary.

Run: ``pip install blosc2``, then ``OMP_NUM_THREADS=1 python benchmarks/compression.py``. Prints a table for each width.
Sizes are shares of the raw bytes; speeds are raw megabytes per second, the median of several rounds in memory.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter

import blosc2
import zstandard
from xxhash import xxh3_64_intdigest

from kvboost_cli.bench.common import BenchModel, throwaway_workspace
from kvboost_cli.model.catalog import resolve_model
from kvboost_cli.model.handle import ModelHandle
from kvboost_cli.pipelines.indexing import IndexRequest, index_documents
from kvboost_cli.pipelines.workspace import Workspace
from kvboost_cli.settings import user_cache_dir, user_model_dir

ROOT = Path(__file__).parent.parent
DOCUMENTS = [ROOT / "examples" / "handbook", ROOT / "docs" / "commands", ROOT / "docs" / "architecture.md"]
DICTIONARY_BYTES = 112640
"""zstd's own default size."""

Values = Sequence[bytes]


@dataclass(frozen=True)
class Method:
    """One way to make values smaller and back."""

    name: str
    pack: Callable[[bytes], bytes]
    unpack: Callable[[bytes], bytes]


def make_handle(model: str | None, dtype: str) -> ModelHandle:
    """The model on the CPU."""
    resolved = resolve_model(model, user_model_dir())
    return ModelHandle(resolved.name, resolved.path, "cpu", dtype, user_cache_dir())


def stored_records(workspace: Workspace) -> list[list[bytes]]:
    """The layers of every content record."""
    with workspace.store.snapshot() as snapshot:
        keys = dict.fromkeys(key for entry in snapshot.documents() for key in entry.chunk_keys)
        headers = {key: snapshot.header(key) for key in keys}
        return [
            [bytes(snapshot.layer(key, layer, header)) for layer in range(header.num_layers)]
            for key, header in headers.items()
            if header is not None
        ]


def plain(level: int, dictionary: zstandard.ZstdCompressionDict | None = None, name: str = "") -> Method:
    """zstd at a level; the compressors are made once."""
    pack = zstandard.ZstdCompressor(level=level, dict_data=dictionary)
    unpack = zstandard.ZstdDecompressor(dict_data=dictionary)
    return Method(name or f"zstd {level}", pack.compress, unpack.decompress)


def shuffled(level: int, kind: str, typesize: int) -> Method:
    """zstd behind one of blosc2's filters."""
    filters = {"byte": blosc2.Filter.SHUFFLE, "bit": blosc2.Filter.BITSHUFFLE}
    options = {"codec": blosc2.Codec.ZSTD, "clevel": level, "typesize": typesize, "nthreads": 1}
    return Method(
        f"{kind}-shuffle over {typesize} B, zstd {level}",
        lambda data: blosc2.compress2(data, filters=[filters[kind]], **options),
        lambda data: blosc2.decompress2(data, nthreads=1),
    )


def checked_copy() -> Method:
    """What reading a raw value costs: its checksum and a copy."""

    def read(data: bytes) -> bytes:
        xxh3_64_intdigest(data)
        return bytes(bytearray(data))

    return Method("raw: checksum and copy", lambda data: data, read)


def seconds(work: Callable[[bytes], bytes], values: Values, rounds: int) -> float:
    """Median time of one round over all values."""
    times = []
    for _ in range(rounds):
        started = perf_counter()
        for value in values:
            work(value)
        times.append(perf_counter() - started)
    return median(times)


def report(method: Method, values: Values, rounds: int) -> str:
    """A row of the table."""
    packed = [method.pack(value) for value in values]
    assert [method.unpack(value) for value in packed[:8]] == list(values[:8]), "nothing is lost"
    raw = sum(map(len, values))
    share = sum(map(len, packed)) / raw
    speeds = (
        raw / 1e6 / seconds(work, data, rounds) for work, data in ((method.pack, values), (method.unpack, packed))
    )
    return f"| {method.name} | {share:.3f} | {next(speeds):,.0f} | {next(speeds):,.0f} |"


def measure(records: list[list[bytes]], rounds: int) -> None:
    """Print the table of one width of codes. The dictionary is trained on every other record."""
    layers = [layer for record in records[1::2] for layer in record]
    training = [layer for record in records[::2] for layer in record]
    dictionary = zstandard.train_dictionary(DICTIONARY_BYTES, training)
    methods = [checked_copy(), *(plain(level) for level in (1, 3, 9))]
    methods += [shuffled(level, "bit", 1) for level in (1, 3, 9)]
    methods += [shuffled(3, "byte", 2), shuffled(3, "bit", 2)]
    methods += [plain(3, dictionary, "zstd 3, trained dictionary")]
    print("| method | size | pack MB/s | unpack MB/s |\n| --- | --- | --- | --- |")
    for method in methods:
        print(report(method, layers, rounds), flush=True)
    whole = [b"".join(record) for record in records[1::2]]
    for level in (3, 19):
        print(report(plain(level, name=f"zstd {level}, whole records"), whole, 1 if level > 9 else rounds), flush=True)


def main() -> None:
    """Index, measure, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bits", type=int, nargs="+", default=[8, 4])
    options = parser.parse_args()
    for bits in options.bits:
        with throwaway_workspace(BenchModel(make_handle, bits=bits, exact=False)) as workspace:
            for _event in index_documents(workspace, IndexRequest([str(path) for path in DOCUMENTS])):
                pass
            records = stored_records(workspace)
        values = [layer for record in records for layer in record]
        print(f"\n{bits} bits: {len(records)} records, {len(values)} layers, {sum(map(len, values)) / 1e6:.1f} MB\n")
        measure(records, options.rounds)


if __name__ == "__main__":
    main()
