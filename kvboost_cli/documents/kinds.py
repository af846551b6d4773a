"""What a file is, told from its name and its first bytes."""

import os
from types import MappingProxyType

HEAD_BYTES = 8 * 1024
_MAX_CONTROL_SHARE = 0.1
# Tab, line feed, form feed, carriage return, backspace and escape stand in real text files.
_CONTROL_BYTES = bytes(set(range(0x20)) - {8, 9, 10, 12, 13, 27})
_BOMS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\x00\x00\xfe\xff")

_SUFFIXES = {
    "text": "txt text log csv tsv tex bib org adoc asciidoc",
    "markdown": "md markdown mdown mkd mdx qmd rmd",
    "rest": "rst rest",
    "html": "html htm xhtml",
    "pdf": "pdf",
    "code": """py pyi pyx js mjs cjs jsx ts tsx java kt kts scala groovy c h cc cpp cxx hpp hh cs go rs rb php pl pm lua
        swift m mm r jl hs ml mli ex exs erl clj cljs lisp el scm dart zig nim sh bash zsh fish ps1 bat sql proto
        graphql cmake mk gradle tf yaml yml toml json jsonl ini cfg conf xml css scss less vue svelte ipynb diff
        patch""",
}
_KIND_OF_SUFFIX = MappingProxyType({"." + end: kind for kind, ends in _SUFFIXES.items() for end in ends.split()})

_BINARY = """
    png jpg jpeg gif bmp tif tiff webp ico heic psd mp3 mp4 m4a m4v ogg oga ogv wav flac avi mov mkv webm
    zip gz bz2 xz zst 7z rar tar tgz jar war whl egg deb rpm dmg iso exe dll so dylib o a lib obj pyc pyo pyd class
    wasm ttf otf woff woff2 eot doc docx xls xlsx ppt pptx odt ods odp epub mobi sqlite sqlite3 db mdb parquet
    npy npz pkl pickle pt pth onnx gguf safetensors h5 hdf5
"""
BINARY_SUFFIXES = frozenset("." + end for end in _BINARY.split())


def suffix_of(name: str) -> str:
    """Return the last suffix of a path in lower case, with its dot, or "".

    >>> suffix_of("docs/Guide.MD"), suffix_of("Makefile")
    ('.md', '')
    """
    return os.path.splitext(name)[1].lower()


def kind_of(name: str, head: bytes) -> str:
    """Return text, markdown, rest, code, html or pdf from the name, else from the content's first bytes.

    >>> kind_of("saved page", b"<!DOCTYPE html><title>x</title>")
    'html'
    """
    known = _KIND_OF_SUFFIX.get(suffix_of(name))
    if known is not None:
        return known
    if head.startswith(b"%PDF-"):
        return "pdf"
    opening = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if opening.startswith((b"<!doctype html", b"<html")):
        return "html"
    return "code" if opening.startswith(b"#!") else "text"


def is_binary(name: str, head: bytes) -> bool:
    """Tell from the suffix and at most HEAD_BYTES first bytes whether no text can come of a file."""
    if suffix_of(name) in BINARY_SUFFIXES:
        return True
    if kind_of(name, head) == "pdf" or head.startswith(_BOMS):
        return False
    if b"\0" in head:
        return True
    num_controls = len(head) - len(head.translate(None, _CONTROL_BYTES))
    return num_controls > len(head) * _MAX_CONTROL_SHARE
