import os
from contextlib import suppress
from pathlib import Path

import pytest
from blake3 import blake3
from hypothesis import given
from hypothesis import strategies as st

from kvboost_cli.documents import (
    MAX_DOCUMENT_BYTES,
    BinaryDocument,
    Document,
    DocumentError,
    DocumentTooLarge,
    DocumentVanished,
    EmptyDocument,
    NotAFile,
    SourceFile,
    UnknownEncoding,
    discover,
    document_from_bytes,
    document_from_text,
    read_document,
    skipped_for,
)

GERMAN = "Die Größe der Straße überraschte die Gäste, und danach gingen alle müde nach Hause. "
RUSSIAN = "Это обычный русский текст, который нужен для проверки кодировки документа. "
JAPANESE = "これは日本語の文章です。文字コードの検出を試験します。"
SPANISH = "Todos los archivos se guardan en la carpeta del año pasado, y el niño comió después. "
POLISH = "Następny dzień był piękny, więc poszliśmy wszyscy na długi spacer za miasto. "


def source(path: Path) -> SourceFile:
    (found,) = discover([path])
    assert isinstance(found, SourceFile)
    return found


def test_a_document_carries_its_file_and_hash(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_bytes("\ufeff# Größe\r\ntext\rend".encode())
    found = source(path)
    text = "# Größe\ntext\nend"
    content_hash = blake3(text.encode()).hexdigest()
    assert read_document(found) == Document(
        str(path), str(tmp_path), text, "markdown", content_hash, found.size_bytes, found.mtime_ns
    )


def test_the_same_text_has_the_same_hash_however_it_came() -> None:
    ways = [
        document_from_text("stdin", "größe\r\n"),
        document_from_bytes("x.txt", "größe\n".encode()),
        document_from_bytes("x.txt", "größe\n".encode("utf-16")),
        document_from_bytes("x.txt", "größe\n".encode("utf-32")),
    ]
    assert len({document.content_hash for document in ways}) == 1
    assert ways[0].name == "stdin"


@pytest.mark.parametrize(
    ("name", "content", "kind"),
    [
        ("a.MD", b"x", "markdown"),
        ("a.rst", b"x", "rest"),
        ("a.rst.txt", b"x", "text"),
        ("a.py", b"x", "code"),
        ("README", b"x", "text"),
        ("run", b"#!/bin/sh\n", "code"),
        ("page", b"\n<!doctype HTML><p>x", "html"),
        ("page.htm", b"x", "html"),
        ("page.xyz", b"<html><p>x", "html"),
        ("page.md", b"<html><p>x", "markdown"),
    ],
)
def test_kinds(name: str, content: bytes, kind: str) -> None:
    assert document_from_bytes(name, content).kind == kind


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN * 3, "cp1252"),
        (GERMAN * 3, "latin-1"),
        (SPANISH * 2, "latin-1"),
        (RUSSIAN * 2, "cp1251"),
        (RUSSIAN * 2, "koi8-r"),
        (JAPANESE * 2, "shift_jis"),
        (JAPANESE * 2, "euc_jp"),
        (POLISH * 2, "cp1250"),
        (GERMAN, "utf-16"),
    ],
)
def test_legacy_encodings_are_read(text: str, encoding: str) -> None:
    assert document_from_bytes("a.txt", text.encode(encoding)).text == text


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ((GERMAN * 3).encode() + b"\xff and on", "damaged UTF-8 at byte 270"),
        (b"\xff\xfea\0b", "damaged UTF-16 at byte 4"),
        (bytes(range(128, 256)) * 4, "text of unknown encoding"),
        ("\u041f\u0440\u0438\u0432\u0435\u0442".encode("cp1251"), "text of unknown encoding"),
    ],
)
def test_text_that_cannot_be_told_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(UnknownEncoding) as caught:
        document_from_bytes("a.txt", content)
    assert str(caught.value) == f"{reason}: a.txt"


def test_a_text_always_encodes_as_utf_8() -> None:
    document = document_from_text("stdin", "a\ud83d\ude00b\udc80c")
    assert document.text == "a\U0001f600b\ufffdc"
    assert document.content_hash == blake3(document.text.encode()).hexdigest()


@pytest.mark.parametrize("text", ["", " \r\n\t", "\ufeff", "\u3000"])
def test_white_space_is_no_document(text: str) -> None:
    with pytest.raises(EmptyDocument, match="an empty document: stdin"):
        document_from_text("stdin", text)
    with pytest.raises(EmptyDocument):
        document_from_bytes("stdin", text.encode())


def test_binary_content_is_no_document() -> None:
    with pytest.raises(BinaryDocument, match=r"a binary file: a\.md"):
        document_from_bytes("a.md", b"PK\3\4\0\0")


def test_the_size_is_limited() -> None:
    with pytest.raises(DocumentTooLarge, match="larger than 64 MiB: a"):
        document_from_bytes("a", b"x" * (MAX_DOCUMENT_BYTES + 1))
    with pytest.raises(DocumentTooLarge):
        document_from_text("a", "\u3042" * (MAX_DOCUMENT_BYTES // 3 + 1))


def test_a_file_that_changed_since_it_was_found_is_told(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("text")
    found = source(path)
    path.unlink()
    with pytest.raises(DocumentVanished, match="gone since it was found"):
        read_document(found)
    os.mkfifo(path)
    with pytest.raises(NotAFile, match="a fifo, not a file"):
        read_document(found)
    path.unlink()
    path.mkdir()
    with pytest.raises(NotAFile, match="a folder, not a file"):
        read_document(found)


def test_a_changed_file_is_read_as_it_is_now(tmp_path: Path) -> None:
    path = tmp_path / "a.md"
    path.write_text("text")
    found = source(path)
    path.write_text("longer text")
    document = read_document(found)
    assert (document.text, document.size_bytes) == ("longer text", 11)
    assert document.mtime_ns == os.stat(path).st_mtime_ns


def test_an_error_becomes_a_skipped_as_discovery_makes_them(tmp_path: Path) -> None:
    path = tmp_path / "late.txt"
    path.write_bytes("\u3000\n".encode() * 3000)
    found = source(path)
    with pytest.raises(EmptyDocument) as caught:
        read_document(found)
    assert skipped_for(caught.value, explicit=found.explicit).failed is True
    assert skipped_for(caught.value, explicit=False).failed is False


@given(st.binary(max_size=600))
def test_any_bytes_give_a_document_or_a_reason(data: bytes) -> None:
    for name in ("a", "a.txt"):
        with suppress(DocumentError):
            document = document_from_bytes(name, data)
            document.text.encode()
            assert "\r" not in document.text


@given(st.text(min_size=1))
def test_text_comes_back_as_it_was_but_for_newlines(text: str) -> None:
    expected = text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    try:
        assert document_from_text("stdin", text).text == expected
    except EmptyDocument:
        assert not expected.strip()
