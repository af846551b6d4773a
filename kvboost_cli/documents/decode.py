"""From bytes to text: UTF-8, then a byte order mark, then detection that has to be confident."""

import codecs

from .errors import UnknownEncoding

_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    # UTF-32 first: its little-endian mark begins with that of UTF-16.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
# Worth telling apart, one per family of look-alikes; a longer list makes the detection guess wildly.
_CANDIDATES = (
    *("cp1252", "cp1250", "iso8859_2", "cp1251", "koi8_r", "cp1253", "cp1254"),
    *("cp932", "euc_jp", "gb18030", "big5", "cp949"),
)
_MULTI_BYTE = frozenset({"cp932", "euc_jp", "gb18030", "big5", "cp949"})
_CENTRAL_EUROPEAN = frozenset({"cp1250", "iso8859_2"})
_CENTRAL_LANGUAGES = frozenset({"Polish", "Czech", "Slovak", "Hungarian", "Romanian", "Croatian", "Slovene"})
_MAX_CHAOS = 0.1
_CLOSE_CHAOS = 0.02
_CLOSE_COHERENCE = 0.03


def decode_text(name: str, data: bytes, declared: str | None = None) -> str:
    """Decode a document's bytes and tidy the result with `clean_text`.

    `declared` is an encoding that the content names itself; it is believed where UTF-8 does not fit.
    Raises UnknownEncoding.
    """
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return clean_text(_decode_marked(name, data, encoding))
    try:
        return clean_text(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        _refuse_damaged_utf8(name, data, error.start)
    if declared is not None and _fits(data, declared):
        return clean_text(data.decode(declared))
    return clean_text(data.decode(_detect(name, data)))


def clean_text(text: str) -> str:
    """Make newlines "\\n", drop a byte order mark, and mend or replace lone surrogates so that text encodes as UTF-8.

    >>> clean_text("a\\r\\nb\\rc")
    'a\\nb\\nc'
    """
    text = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _decode_marked(name: str, data: bytes, encoding: str) -> str:
    try:
        return data.decode(encoding)
    except UnicodeDecodeError as error:
        raise UnknownEncoding(f"damaged {encoding.upper()} at byte {error.start}", name) from error


def _refuse_damaged_utf8(name: str, data: bytes, first_bad: int) -> None:
    """Refuse what is UTF-8 but for some bytes: any other reading of it would garble the rest."""
    text = data.decode("utf-8", "surrogateescape")
    num_bad = sum("\udc80" <= char <= "\udcff" for char in text)
    num_good = sum(char > "\x7f" for char in text) - num_bad
    if num_good > num_bad:
        raise UnknownEncoding(f"damaged UTF-8 at byte {first_bad}", name)


def _fits(data: bytes, encoding: str) -> bool:
    try:
        data.decode(encoding)
    except (LookupError, UnicodeError, ValueError):
        return False
    return True


def _detect(name: str, data: bytes) -> str:
    """Return the one encoding that the content speaks for. Raises UnknownEncoding if none or several do."""
    from charset_normalizer import from_bytes

    matches = list(from_bytes(data, cp_isolation=list(_CANDIDATES), enable_fallback=False))
    rivals = {
        "cp1252" if "cp1252" in match.could_be_from_charset else match.encoding
        for match in matches
        if match.chaos <= min(_MAX_CHAOS, matches[0].chaos + _CLOSE_CHAOS)
        and match.coherence >= matches[0].coherence - _CLOSE_COHERENCE
    }
    if "cp1252" in rivals and rivals & _CENTRAL_EUROPEAN:  # alike in most letters: the language decides
        rivals -= {"cp1252"} if matches[0].language in _CENTRAL_LANGUAGES else _CENTRAL_EUROPEAN
    spoken_for = rivals & (_MULTI_BYTE | {"cp1252"}) or (matches and matches[0].coherence > 0)
    if len(rivals) != 1 or not spoken_for:
        raise UnknownEncoding("text of unknown encoding", name)
    return rivals.pop()
