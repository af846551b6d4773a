"""After the answer: the report, the verification, and what had to be computed goes into the store."""

import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from store import AskEntry, ChunkRecord, count_ask

from ..documents import DocumentError, Skipped
from .asked import AskedDocument, reread
from .asking import Answer, AskRequest, Stitched
from .errors import DocumentNotFound
from .plan import Hit, Segment
from .prepare import PreparedDocument
from .records import positional_record
from .repairing import default_ratio, effective_name
from .report import AskReport, DocumentReport, Verification, count_tokens
from .restoring import Restored, restore_evicted
from .speeds import PREFILL, estimate_prefill_s, make_sample, read_speeds, record_speed
from .verify import compute_reference, measure_divergence, summarize
from .workspace import Workspace
from .writer import DocumentWriter, Encoded, Indexed


def make_report(
    workspace: Workspace,
    request: AskRequest,
    answer: Answer,
    verification: Verification | None,
    *,
    gate_s: float = 0.0,
) -> AskReport:
    """All facts about an answer; ``gate_s`` is what the fidelity gate took before it."""
    handle, stitched = workspace.handle, answer.stitched
    strategy = "none" if request.no_cache else effective_name(request.repair)
    return AskReport(
        answer=handle.codec.text(answer.token_ids), finish_reason=answer.finish_reason, model=handle.name,
        device=str(handle.device), dtype=handle.dtype, documents=tuple(document_reports(stitched)),
        tokens=count_tokens(stitched.plan, stitched.num_repaired, len(answer.token_ids)), phases=answer.phases,
        import_s=handle.import_s, model_load_s=handle.load_s, decode_tokens_per_s=_decode_rate(answer),
        strategy=strategy, ratio=default_ratio(strategy) if request.ratio is None else request.ratio,
        verify=verification, gate_s=gate_s,
        estimated_reference_s=None if verification else _estimate_reference_s(workspace, stitched),
    )  # fmt: skip


def _estimate_reference_s(workspace: Workspace, stitched: Stitched) -> float | None:
    return estimate_prefill_s(read_speeds(workspace.store), stitched.plan.num_tokens)


def _decode_rate(answer: Answer) -> float | None:
    """Tokens per second after the first one; None without any."""
    decoded = len(answer.token_ids) - 1
    return decoded / answer.decode_s if decoded > 0 and answer.decode_s else None


def document_reports(stitched: Stitched) -> Iterator[DocumentReport]:
    """The documents of a prompt in their order, each with its tokens and its hit."""
    for document, segment in zip(stitched.prompt.documents, stitched.plan.segments, strict=True):
        yield DocumentReport(document.name, document.num_tokens, _segment_hit(segment).value)


def _segment_hit(segment: Segment) -> Hit:
    """A document is as good as its worst chunk."""
    hits = {chunk.hit for chunk in segment.chunks}
    return next((hit for hit in (Hit.MISS, Hit.CONTENT) if hit in hits), Hit.EXACT)


def verify_answer(workspace: Workspace, answer: Answer) -> Verification:
    """Run full prefill on the same token ids and compare; the cache behind the prompt is overwritten."""
    model, stitched = workspace.handle.loaded, answer.stitched
    ids = stitched.prompt.token_ids
    reference = compute_reference(model, ids, answer.max_tokens)
    divergence = measure_divergence(model, reference, stitched.kv, stitched.logits, len(ids), answer.max_tokens)
    ttft_s = sum(answer.phases.values())
    return summarize(workspace.handle.codec, reference, divergence, answer.token_ids, ttft_s)


def write_back(workspace: Workspace, stitched: Stitched) -> Iterator[Indexed | Encoded | Skipped]:
    """Store the preamble's exact KV and, by the encoder of ``index``, the documents that lacked chunks.

    A document with a damaged record is looked through for others; one whose file is gone is skipped. Evicted records
    come back as far as this prompt had a use for them.
    """
    if stitched.found.preamble is None and stitched.prompt.preamble:
        workspace.store.put_position(_preamble_record(workspace, stitched))
    lacking: list[PreparedDocument] = []
    for document in {document.name: document for document in stitched.prompt.documents}.values():
        try:
            lacking.extend(_lacking(workspace, document, stitched.damaged))
        except (DocumentNotFound, DocumentError) as error:
            yield Skipped(document.name, f"a record is damaged and cannot be made anew ({error})", failed=True)
    told = {prepared.document.name for prepared in lacking}
    evicted = [item for item in restore_evicted(workspace, stitched) if item.prepared.document.name not in told]
    yield from _store_anew(workspace, [*map(Restored, lacking), *evicted], stitched.damaged)


def _store_anew(
    workspace: Workspace, documents: Sequence[Restored], damaged: frozenset[bytes]
) -> Iterator[Indexed | Encoded]:
    """Encode what the documents lack; a store without fillers gets them from these documents."""
    if not documents:
        return
    writer = DocumentWriter(
        workspace,
        lambda: [(item.prepared.document.content_hash, _token_ids(item.prepared)) for item in documents],
        verify=bool(damaged),
    )
    for item in documents:
        yield from writer.add(item.prepared, damaged=damaged, left=item.left)
    yield from writer.flush()


def _lacking(workspace: Workspace, document: AskedDocument, damaged: frozenset[bytes]) -> list[PreparedDocument]:
    """The document, if it was read from disk for this prompt or if a record of it proved damaged."""
    if document.prepared is not None:
        return [document.prepared]
    if damaged:
        with workspace.store.snapshot() as snapshot:
            entry = snapshot.document(document.name)
        if entry is not None and damaged.intersection([*entry.chunk_keys, *entry.position_keys]):
            return [reread(workspace, document.name)]
    return []


def _token_ids(prepared: PreparedDocument) -> list[int]:
    return [token for chunk in prepared.chunks for token in chunk.token_ids]


def _preamble_record(workspace: Workspace, stitched: Stitched) -> ChunkRecord:
    """The preamble's KV as it stands in the cache."""
    length = stitched.plan.num_preamble_tokens
    layers = (
        (keys[0, :, :length], values[0, :, :length])
        for keys, values in map(stitched.kv.layer_kv, range(workspace.handle.loaded.geometry.num_layers))
    )
    handle = workspace.handle
    key = stitched.found.preamble_key
    preamble = stitched.prompt.preamble
    return positional_record(key, handle.loaded, handle.fingerprint, workspace.recipe, preamble, layers, rotated=True)


def record_attention(stitched: Stitched) -> dict[bytes, float]:
    """The attention that the question gave each record of its prompt, by key: 0 to 1, and 0 if it was not measured.

    All chunks are there under their content keys. The exact records that served stand in a row, and each is needed for
    those behind it, so it has their attention, too.
    """
    mass = None if stitched.mass is None else stitched.mass.cpu()
    seen = [
        0.0 if mass is None else float(mass[placed.start : placed.start + placed.num_tokens].sum())
        for placed in stitched.plan.chunks
    ]
    attention: dict[bytes, float] = {}
    for chunk, share in zip(stitched.prompt.chunks, seen, strict=True):
        attention[chunk.key] = attention.get(chunk.key, 0.0) + share
    behind = 0.0
    for record, share in zip(reversed(stitched.found.chunks), reversed(seen), strict=True):
        if record is not None and record.hit is Hit.EXACT:
            behind += share
            attention[record.key] = behind
    return attention


def record_reference(workspace: Workspace, report: AskReport) -> None:
    """Keep how fast full prefill was, if it was measured, for the estimates of later asks."""
    if report.verify is not None:
        sample = make_sample(PREFILL, report.device, report.tokens.prompt, report.verify.reference_ttft_s)
        record_speed(workspace.store, sample)


def record_ask(workspace: Workspace, report: AskReport, stitched: Stitched) -> None:
    """Keep an ask in the history, with the order of its documents, and what it looked at for the chunks' importance."""
    entry = replace(
        _ask_entry(report),
        documents=tuple(document.path for document in report.documents),
        preamble=stitched.found.preamble_key.hex(),
        excerpts=tuple(map(_excerpt, stitched.prompt.documents)),
    )
    workspace.store.record_ask(entry, record_attention(stitched))


def record_figures(workspace: Workspace, report: AskReport) -> None:
    """Add an ask to the sums of ``kvboost stats``, and keep nothing else of it."""
    count_ask(workspace.store, _ask_entry(report))


def _ask_entry(report: AskReport) -> AskEntry:
    """An ask's figures, without its documents."""
    hits = [document.hit for document in report.documents]
    return AskEntry(
        at=time.time(),
        model=report.model,
        strategy=report.strategy,
        prompt_tokens=report.tokens.prompt,
        exact=report.tokens.exact,
        reused=report.tokens.reused,
        repaired=report.tokens.repaired,
        prefilled=report.tokens.prefilled,
        generated=report.tokens.generated,
        ttft_s=report.ttft_s,
        documents_exact=hits.count(Hit.EXACT.value),
        documents_content=hits.count(Hit.CONTENT.value),
        documents_miss=hits.count(Hit.MISS.value),
        speedup=None if report.verify is None else report.verify.speedup,
        documents=(),
    )


def _excerpt(document: AskedDocument) -> tuple[int, ...] | None:
    """The places of a document's chunks in the prompt; None if it is whole."""
    places = tuple(chunk.place for chunk in document.chunks)
    return None if len(places) == document.num_chunks else places
