"""`kvboost index`: which files become documents, and what is said of those that do not."""

import random
from pathlib import Path
from typing import Any

import pytest
from desks import Desk, assert_refused, assert_told, prose, without_root_rights

BLOB = random.Random(0).randbytes(3000)


def stored_text(desk: Desk) -> bytes:
    """Text whose chunks are stored already, so that no model is loaded for it."""
    return (desk.docs / "access.md").read_bytes()


def skipped(facts: Any) -> dict[str, str]:
    """Reason by the file's name."""
    return {Path(skip["path"]).name: skip["reason"] for skip in facts["documents"]["skipped"]}


@pytest.mark.parametrize("name", ["nowhere", "docs/nowhere.md", "no*thing.md", "file.md/below"])
def test_a_missing_path_is_a_usage_error_and_nothing_is_indexed(bare_desk: Desk, name: str) -> None:
    file = bare_desk.write("file.md", prose(1))
    assert_refused(bare_desk.run("index", file, name), 2, f"no such file or folder: {name}")
    assert not bare_desk.store.exists() or bare_desk.facts("stats")["documents"] == 0


def test_no_path_at_all_is_a_usage_error(bare_desk: Desk) -> None:
    assert_refused(bare_desk.run("index"), 2, "name at least one file or folder")


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "an empty document"), (b" \n\n", "an empty document"), (BLOB, "a binary file")]
)
def test_a_named_file_without_text_is_told_and_counts_as_failed(desk: Desk, data: bytes, reason: str) -> None:
    file = desk.write("file.md", data)
    done = desk.run("index", file)
    assert done.returncode == 3
    assert done.stderr == f"kvboost: warning: skipped, {reason}: {file}\n"
    assert done.stdout.startswith("documents: none, 1 skipped\n")


def test_a_folder_tells_what_it_passes_over_and_goes_on(desk: Desk) -> None:
    for name, data in {"blob.md": BLOB, "empty.md": b"", ".hidden.md": b"x", "text.md": stored_text(desk)}.items():
        desk.write(f"mixed/{name}", data)
    facts = desk.facts("index", "mixed")
    assert facts["documents"]["added"] == 1
    assert skipped(facts) == {"blob.md": "a binary file", "empty.md": "an empty document"}


def test_a_folder_without_documents_is_an_error(desk: Desk) -> None:
    (desk.root / "none").mkdir()
    assert_refused(desk.run("index", "none"), 1, "no document was found under the given paths")
    assert_refused(desk.run("index", desk.docs, "--glob", "*.zzz"), 1, "no document was found")


def test_a_folder_of_nothing_but_binaries_is_an_error_that_shows_what_was_passed_over(desk: Desk) -> None:
    blob = desk.write("blobs/blob.bin", BLOB)
    done = desk.run("index", "blobs")
    assert done.returncode == 1
    assert f"passed over, a binary file: {blob}\n" in done.stdout
    assert_told(done, "no document was found under the given paths")
    assert skipped(desk.facts("index", "blobs", code=1)) == {"blob.bin": "a binary file"}


def test_an_unreadable_file_is_told_and_the_rest_is_indexed(desk: Desk) -> None:
    desk.write("notes/a.md", stored_text(desk))
    desk.write("notes/b.md", prose(2)).chmod(0)
    done = desk.run("index", "notes", prefix=without_root_rights())
    assert done.returncode == 3
    assert f"kvboost: warning: skipped, cannot be read, permission denied: {desk.root}/notes/b.md\n" in done.stderr
    assert done.stdout.startswith("documents: 1 added, 1 skipped\n")


def test_links_in_circles_end(desk: Desk) -> None:
    desk.write("loop/a.md", stored_text(desk))
    (desk.root / "loop/again").symlink_to("../loop")
    (desk.root / "loop/self.md").symlink_to("self.md")
    facts = desk.facts("index", "loop")
    assert facts["documents"]["added"] == 1
    assert skipped(facts) == {"self.md": "a broken link"}


def test_texts_of_any_encoding_name_and_shape_are_indexed_and_asked_about(desk: Desk) -> None:
    files = {
        "utf16.txt": "Überall stehen Körbe am Ufer.\n".encode("utf-16"),
        "bom.txt": b"\xef\xbb\xbf" + prose(1).encode(),
        "latin1.txt": ("Der Bär überquert die Straße, während Möwen schreien. " * 20).encode("latin-1"),
        "line.txt": b"word " * 4000,
        "no-spaces.txt": b"x" * 20_000,
        "crlf.md": prose(2).replace("\n", "\r\n").encode(),
        "a name, with\ttab and ünï.md": prose(3).encode(),
        "-d": prose(4).encode(),
    }
    for name, data in files.items():
        desk.write(f"odd/{name}", data)
    facts = desk.facts("index", "odd")
    assert (facts["documents"]["added"], facts["documents"]["skipped"]) == (8, [])
    names = [f"odd/{name}" for name in files if name not in ("line.txt", "no-spaces.txt")]
    told = desk.facts("ask", "Which?", *(part for name in names for part in ("-d", name)), "--max-tokens", "1")
    assert [document["hit"] for document in told["documents"]] == ["exact", *["content"] * (len(told["documents"]) - 1)]


def test_html_and_pdf_become_text(desk: Desk) -> None:
    desk.write("web/page.html", "<html><body><h1>Tides</h1><p>Lanterns glow.</p><script>var x</script></body></html>")
    desk.write("web/paper.pdf", one_page_pdf("Harbour lanterns"))
    assert desk.facts("index", "web")["documents"]["added"] == 2
    told = desk.facts("ask", "What of the lanterns?", "--top-k", "2")
    assert {Path(document["path"]).name for document in told["documents"]} == {"page.html", "paper.pdf"}
    assert [document["hit"] for document in told["documents"]] == ["exact", *["content"] * (len(told["documents"]) - 1)]


def one_page_pdf(text: str) -> bytes:
    """A PDF with one line of text; pypdf finds the objects without a table."""
    stream = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET"
    objects = (
        "<< /Type /Catalog /Pages 2 0 R >>",
        "<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        "<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R "
        "/Resources << /Font << /F1 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica >> >> >> >>",
        f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream",
    )
    body = "%PDF-1.4\n"
    places = []
    for number, item in enumerate(objects, 1):
        places.append(len(body))
        body += f"{number} 0 obj\n{item}\nendobj\n"
    table = "".join(f"{place:010} 00000 n \n" for place in places)
    return (
        f"{body}xref\n0 5\n0000000000 65535 f \n{table}trailer\n<< /Size 5 /Root 1 0 R >>\n"
        f"startxref\n{len(body)}\n%%EOF\n"
    ).encode()


def test_paths_come_from_a_list_and_a_missing_one_does_not_stop_the_rest(desk: Desk) -> None:
    desk.write("notes/a b.md", stored_text(desk))
    names = f"notes/a b.md\n\nnotes/gone.md\n{desk.docs}/access.md\n"
    listed = desk.write("list", names)
    told = [desk.facts("index", "--files-from", listed, code=3)]
    told.append(desk.facts("index", "--files-from", "-", "--force", stdin=names.replace("\n", "\0"), code=3))
    for facts in told:
        assert skipped(facts) == {"gone.md": "no such file or folder"}
    assert [facts["documents"]["added"] for facts in told] == [1, 0]
    assert [facts["documents"]["unchanged"] for facts in told] == [1, 2]


def test_a_list_that_cannot_be_read_is_a_usage_error(desk: Desk) -> None:
    assert_refused(desk.run("index", "--files-from", "nolist"), 2, "No such file or directory: nolist")
    assert_refused(desk.run("index", "-", "--files-from", "-"), 2, "standard input can be a document or a list")
    assert_refused(desk.run("index", "--files-from", "-"), 1, "no document was found under the given paths")


def test_a_listed_name_may_hold_bytes_that_are_no_text(desk: Desk) -> None:
    (desk.root / b"n\xff.md".decode("utf-8", "surrogateescape")).write_text(prose(1))
    assert desk.facts("index", "--files-from", "-", "--dry-run", stdin=b"n\xff.md\n")["documents"]["added"] == 1


def test_a_pattern_chooses_files(desk: Desk) -> None:
    def chosen(*args: str | Path) -> int:
        return int(desk.facts("index", *args, "--dry-run")["documents"]["unchanged"])

    assert chosen(f"{desk.docs}/r*.md") == len(list(desk.docs.glob("r*.md"))) == 2
    assert chosen(desk.docs, "--glob", "r*", "--glob", "b*", "--exclude", "bu*") == 3


def test_a_document_from_standard_input_is_stored_under_its_name(desk: Desk) -> None:
    facts = desk.facts("index", "-", stdin=stored_text(desk))
    assert (facts["documents"]["added"], facts["chunks"]["new"]) == (1, 1), "all but its first chunk are stored already"
    told = desk.facts("ask", "Which wave?", "-d", "stdin")
    assert (told["documents"][0]["path"], told["documents"][0]["hit"]) == ("stdin", "exact")


@pytest.mark.parametrize(("data", "reason"), [(b"", "an empty document"), (BLOB, "a binary file")])
def test_standard_input_without_text_is_refused(desk: Desk, data: bytes, reason: str) -> None:
    assert_refused(desk.run("index", "-", stdin=data), 1, f"{reason}: stdin")
