"""What values take in the file, told before they are written: against what LMDB then took."""

import pytest
from store_samples import IDENTITY, make_entry, make_record

from store import ChunkStore, file_bytes, header_bytes


@pytest.mark.parametrize("layer_bytes", [200, 3_000, 5_000, 110_592])
def test_the_file_grows_by_about_what_was_told(tmp_path, layer_bytes):
    records = [make_record(seed, layer_bytes=layer_bytes) for seed in range(60)]
    told = sum(file_bytes([len(record.header.pack()), *map(len, record.layers)]) for record in records)
    with ChunkStore.create(tmp_path / "store", IDENTITY) as store:
        before = store.stats().live_bytes
        for number, record in enumerate(records):
            store.put_document(make_entry(f"/{number}", [record]), [record])
        grown = store.stats().live_bytes - before
    entries = 60 * 1_500  # the documents' own, and the counts
    assert told - 20_000 < grown < 1.35 * told + entries


def test_a_headers_size_is_known_before_it_is_made():
    header = make_record(1).header
    assert header_bytes(header.num_tokens, header.num_layers) == len(header.pack())
