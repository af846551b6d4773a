"""HTML and PDF: what becomes of them, and that no input gets past the error tree."""

import io
import logging
import warnings
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pypdf import PdfReader, PdfWriter

from kvboost_cli.documents import (
    DocumentError,
    EmptyDocument,
    UnreadableDocument,
    document_from_bytes,
    document_from_text,
)

PAGE = """<!DOCTYPE html>
<html><head><title>The   cache</title><style>p { color: red }</style><script>var x = "hidden";</script></head>
<body><h2>Keys &amp; values</h2><p>A <b>cache</b> holds snake_case and *stars* in
a <a href="https://example.org">link</a>.<img src="x.png" alt="a picture"></p>
<ul><li>one</li><li>two</li></ul><pre>def f():
    return 1</pre><table><tr><th>a</th><th>b</th></tr><tr><td>1</td><td>2</td></tr></table>
<noscript>no script</noscript></body></html>"""


def markdown(page: str | bytes) -> str:
    data = page if isinstance(page, bytes) else page.encode()
    return document_from_bytes("page.html", data).text


def test_a_page_becomes_markdown() -> None:
    text = markdown(PAGE)
    assert text.startswith("# The cache\n\n## Keys & values\n\n")
    assert "holds snake_case and *stars* in" in text
    assert "def f():\n    return 1" in text
    assert "| a | b |" in text
    for dropped in ("hidden", "color", "no script", "example.org", "<", "x.png"):
        assert dropped not in text


def test_a_first_level_heading_stands_for_the_title() -> None:
    text = markdown("<html><title>Site</title><h1>Page</h1><p>text")
    assert text == "# Page\n\ntext\n"


def test_html_given_as_text_is_converted_too() -> None:
    document = document_from_text("stdin", "<!doctype html><h1>Page</h1>")
    assert (document.kind, document.text) == ("html", "# Page\n")


@pytest.mark.parametrize(
    "page",
    [
        "<h1>open <b>never <i>closed",
        "</div></p></html>text",
        "<p>a<p>b<table><td>c",
        "<![CDATA[x]]>text",
        "&#xD800;&#99999999;&nope;text",
        "<p a=1 a=2 <b>text",
        "<?xml version='1.0' encoding='utf-8'?><html xmlns='x'><p>text</p></html>",
        "http://example.org/text",
        "<h1>x</h1>" + "<ol start='y'><li value='z'>text</ol><td colspan='many'>x",
    ],
)
def test_malformed_html_is_read(page: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert markdown(page).strip()


@pytest.mark.parametrize(
    "page",
    [
        "<title></title><p>",
        "<!-- never closed",
        "<a href='never closed",
        '<a href="' * 50_000,
        "<!--" * 100_000,
        "<b>" * 9999,
    ],
)
def test_a_page_without_text_is_empty(page: str) -> None:
    with pytest.raises(EmptyDocument):
        markdown(page)


def test_absurdly_nested_html_keeps_its_text() -> None:
    depth = 5000
    text = markdown("<div>" * depth + "deep text" + "</div>" * depth + "<ul><li>" * depth + "deeper text")
    assert "deep text" in text
    assert "deeper text" in text


def test_the_declared_encoding_of_a_page_counts() -> None:
    page = '<html><head><meta charset="koi8-r"></head><p>\u041f\u0440\u0438\u0432\u0435\u0442</p>'
    assert markdown(page.encode("koi8-r")) == "\u041f\u0440\u0438\u0432\u0435\u0442\n"
    with pytest.raises(UnreadableDocument):
        markdown(page.replace("koi8-r", "no-such-thing").encode("koi8-r"))


@given(st.text(alphabet="<>/!-=\"'&;#x? \nabdhiloprtuw[]1", max_size=120))
def test_any_markup_gives_text_or_a_reason(page: str) -> None:
    with suppress(DocumentError):
        document_from_bytes("page.html", page.encode())


def pdf(*pages: str) -> bytes:
    """A PDF with one line of Helvetica on each page, written by hand."""
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(len(pages)))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {len(pages)} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        stream = f"BT /F1 12 Tf 72 720 Td ({text}) Tj ET" if text else ""
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        box = "/MediaBox [0 0 612 792]"
        objects.append(f"<< /Type /Page /Parent 2 0 R {box} {resources} /Contents {5 + 2 * number} 0 R >>")
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
    body, places = "%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{content}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    size = len(objects) + 1
    end = f"trailer\n<< /Size {size} /Root 1 0 R >>\nstartxref\n{len(body)}\n%%EOF\n"
    return f"{body}xref\n0 {size}\n0000000000 65535 f \n{table}{end}".encode()


def encrypted(password: str) -> bytes:
    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(pdf("secret"))))
    writer.encrypt(password, "owner", algorithm="RC4-128")
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_pages_are_joined_by_blank_lines() -> None:
    document = document_from_bytes("paper", pdf("first page", "", "last page"))
    assert (document.kind, document.text) == ("pdf", "first page\n\nlast page\n")


def test_a_pdf_without_a_user_password_is_read() -> None:
    assert document_from_bytes("a.pdf", encrypted("")).text == "secret\n"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encrypted("password"), "an encrypted PDF"),
        (pdf(""), "a PDF without a text layer"),
        (pdf("text")[:60], "a damaged PDF"),
        (b"no PDF at all", "a damaged PDF"),
    ],
)
def test_a_pdf_without_text_says_why(data: bytes, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnreadableDocument) as caught:
        document_from_bytes("a.pdf", data)
    assert str(caught.value) == f"{reason}: a.pdf"
    assert caplog.records == []


def test_pypdf_keeps_quiet_and_its_logger_is_left_as_it_was(capfd: pytest.CaptureFixture[str]) -> None:
    level = logging.getLogger("pypdf").level
    sloppy = pdf("text").replace(b"startxref\n", b"startxref\n9")
    assert document_from_bytes("a.pdf", sloppy).text == "text\n"
    assert logging.getLogger("pypdf").level == level
    assert capfd.readouterr() == ("", "")


@given(st.integers(0, 600), st.binary(min_size=1, max_size=8))
def test_a_damaged_pdf_gives_text_or_a_reason(place: int, damage: bytes) -> None:
    data = pdf("first page", "second")
    with suppress(DocumentError):
        document_from_bytes("a.pdf", data[:place] + damage + data[place + len(damage) :])
