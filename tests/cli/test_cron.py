"""`kvboost cron`: the line that it installs does its work with next to no environment, and under a real cron."""

import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from desks import SCRIPT, Desk, assert_refused, prose

BARE = {"HOME": "/", "LOGNAME": "nobody", "PATH": "/usr/bin:/bin", "SHELL": "/bin/sh"}
"""What cron gives its jobs."""

CRONTAB = """#!/bin/sh
# A crontab that is a file of the test's own; says what Debian's says when there is none.
case "$1" in
  -l) cat "$TABLE" 2>/dev/null || { echo "no crontab for me" >&2; exit 1; } ;;
  -) cat > "$TABLE.new" && mv "$TABLE.new" "$TABLE" ;;
esac
"""

FOREIGN = b"""# my own lines, caf\xe9
MAILTO="me@example.org"
  5  4 * *  sun   /usr/bin/backup --rate 10\\% # nightly

@reboot sleep 1; echo 'a#b'
not a line at all
"""


@pytest.fixture
def table(desk: Desk) -> Path:
    """The crontab's file, which does not exist yet."""
    program = desk.write("bin/crontab", CRONTAB)
    program.chmod(0o755)
    return desk.root / "table"


@pytest.fixture
def cron(desk: Desk, table: Path) -> Desk:
    """A desk with a crontab program of its own, and a folder that was indexed."""
    desk.write("notes/tide.md", prose(3))
    desk.write("notes/wind.md", prose(4))
    assert desk.run("index", "notes", "-q").returncode == 0
    return desk.with_env(PATH=f"{table.parent / 'bin'}:{desk.env['PATH']}", TABLE=str(table))


def command_of(line: str) -> str:
    """What cron hands to the shell: the sixth field, percent signs unescaped."""
    return line.split(None, 5)[5].replace(r"\%", "%")


def test_other_lines_stay_byte_for_byte(cron: Desk, table: Path) -> None:
    table.write_bytes(FOREIGN)
    shown = cron.run("cron", "print", "--schedule", "5 * * * *").stdout
    for schedule in ("5 * * * *", "@daily"):
        assert cron.run("cron", "install", "--schedule", schedule, "-q").returncode == 0
        assert table.read_bytes().startswith(FOREIGN)
        assert len(table.read_bytes().splitlines()) == len(FOREIGN.splitlines()) + 1, "one line, put in its own place"
    assert table.read_text(errors="replace").splitlines()[-1] == shown.replace("5 * * * *", "@daily").rstrip("\n")
    assert cron.run("cron", "remove").stdout == "removed\n"
    assert table.read_bytes() == FOREIGN
    assert cron.run("cron", "remove").stdout == "nothing was installed for this store\n"


def test_two_stores_have_two_lines(cron: Desk, table: Path) -> None:
    other = cron.with_env(KVBOOST_STORE=str(shutil.copytree(cron.store, cron.root / "other 100%")))
    for desk in (cron, other):
        assert desk.run("cron", "install", "-q").returncode == 0
    assert len(table.read_text().splitlines()) == 2
    cron.run("cron", "remove", "-q")
    (line,) = table.read_text().splitlines()
    assert r"other 100\%" in line
    assert other.facts("cron", "status")["line"] == line


def test_the_installed_line_prewarms_in_a_bare_environment(cron: Desk, table: Path) -> None:
    """With a project file, whose settings count, and paths and values that a shell would take apart."""
    project = cron.write("my project/kvboost.toml", "history = true\n").parent
    here = Desk(project, cron.docs, cron.store, cron.env | {"OMP_NUM_THREADS": "1"})
    done = here.run("cron", "install", "--top", "3", "--max-time", "5m", "--log", project / "a 'quoted' 50%.log")
    assert done.returncode == 0, done.stderr
    (line,) = table.read_text().splitlines()
    assert line + "\n" == done.stdout
    cron.run("ask", "Who?", "-d", "tide.md", "-d", "wind.md", "-q")
    words = [f"{name}={value}" for name, value in BARE.items()]
    run = subprocess.run(
        ["env", "-i", *words, "/bin/sh", "-c", command_of(line)], cwd="/", capture_output=True, text=True, check=False
    )
    log = project / "a 'quoted' 50%.log"
    assert (run.returncode, run.stdout, run.stderr) == (0, "", ""), log.read_text() if log.exists() else ""
    assert "orders: 1 made exact" in log.read_text()
    facts = cron.facts("ask", "Who?", "-d", "tide.md", "-d", "wind.md")
    assert [document["hit"] for document in facts["documents"]] == ["exact", "exact"]
    assert cron.facts("cron", "status") == {
        "line": line, "timer": None, "log": str(log), "last": log.read_text().splitlines()[-1]
    }  # fmt: skip


def test_what_cannot_be_installed_is_refused_and_nothing_is_written(cron: Desk, table: Path) -> None:
    assert_refused(cron.run("cron", "install", "--schedule", "61 * * * *"), 2, "cron does not understand this time")
    assert_refused(cron.run("cron", "install", "--max-time", "x"), 2, "a time is written as in 90s, 10m or 2h")
    nowhere = cron.with_env(KVBOOST_STORE=str(cron.root / "none"))
    assert_refused(nowhere.run("cron", "install"), 1, "there is no store at")
    long = cron.with_env(KVBOOST_SYSTEM="word " * 300)
    assert_refused(long.run("cron", "install"), 1, "cron takes commands of up to 998 bytes")
    broken = cron.with_env(KVBOOST_SYSTEM="one\ntwo")
    assert_refused(broken.run("cron", "install"), 1, "has a line break")
    assert not table.exists()
    (table.parent / "bin" / "crontab").write_text("#!/bin/sh\necho 'you are not allowed to use this' >&2; exit 1\n")
    assert_refused(cron.run("cron", "install"), 1, "the crontab cannot be read: you are not allowed to use this")
    bare = cron.with_env(PATH="/nowhere")
    done = subprocess.run(
        [sys.executable, SCRIPT, "cron", "install"], cwd=cron.root, env=bare.env, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert (done.returncode, "there is no crontab program" in done.stderr) == (1, True)


def test_the_units_are_those_that_systemd_takes(cron: Desk) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here to check units with")
    project = cron.write("my project/kvboost.toml", "top_k = 3\n").parent
    here = Desk(project, cron.docs, cron.store, cron.env | {"KVBOOST_SYSTEM": 'Be "brief" for $5, 100%.'})
    shown = here.run("cron", "print", "--systemd", "--schedule", "Mon..Fri 02:30").stdout
    _empty, *parts = shown.split("# /")
    names = []
    for part in parts:
        path, _, text = part.partition("\n")
        names.append(cron.write(f"units/{Path(path).name}", text))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, names)], capture_output=True, text=True, check=False
    )
    complaints = [line for line in done.stderr.splitlines() if "kvboost" in line]
    assert (done.returncode, complaints) == (0, []), done.stderr
    assert 'Environment="KVBOOST_SYSTEM=Be \\"brief\\" for $5, 100%%."' in names[0].read_text()
    assert "OnCalendar=Mon..Fri 02:30" in names[1].read_text()


def test_the_timer_is_written_started_and_removed(cron: Desk) -> None:
    """systemctl is a stand-in that notes its calls: a test has no systemd of its own to talk to."""
    cron.write("bin/systemctl", f'#!/bin/sh\necho "$@" >> {shlex.quote(str(cron.root / "calls"))}\n').chmod(0o755)
    if shutil.which("systemd-analyze") is None:
        cron.write("bin/systemd-analyze", "#!/bin/sh\n").chmod(0o755)
    done = cron.run("cron", "install", "--systemd", "--schedule", "daily")
    assert done.returncode == 0, done.stderr
    timer = Path(cron.facts("cron", "status")["timer"])
    assert timer.read_text() in done.stdout
    assert timer.with_suffix(".service").read_text() in done.stdout
    assert cron.run("cron", "remove", "--systemd").stdout == "removed\n"
    assert not timer.exists()
    calls = (cron.root / "calls").read_text().splitlines()
    assert calls[:2] == ["--user daemon-reload", f"--user enable --now {timer.name}"]
    assert calls[2:] == [f"--user disable --now {timer.name}", "--user daemon-reload"]


NAMESPACE = """set -e
mount -t tmpfs tmpfs /var/spool/cron
mount -t tmpfs tmpfs /run
mkdir -m 1730 /var/spool/cron/crontabs
chgrp crontab /var/spool/cron/crontabs
"$@"
exec cron -f
"""


def test_a_real_cron_runs_the_line(cron: Desk) -> None:
    """In a mount namespace of its own, so that the system's crontabs are neither seen nor changed."""
    if shutil.which("cron") is None or shutil.which("unshare") is None or os.geteuid() != 0:
        pytest.skip("a cron daemon needs Debian's cron, unshare and root")
    probe = subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False)
    if probe.returncode:
        pytest.skip("this system grants no mount namespace to run a cron daemon in")
    real = {**cron.env, "PATH": os.environ["PATH"]}
    cron.run("ask", "Who?", "-d", "tide.md", "-d", "wind.md", "-q")
    install = [str(SCRIPT), "cron", "install", "--schedule", "* * * * *", "--log", str(cron.root / "log")]
    daemon = subprocess.Popen(
        ["unshare", "-m", "bash", "-c", NAMESPACE, "bash", *install], cwd=cron.root, env=real,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    log, deadline = cron.root / "log", time.monotonic() + 180
    try:
        while time.monotonic() < deadline and daemon.poll() is None:
            if log.exists() and "orders: " in log.read_text():
                break
            time.sleep(0.5)
    finally:
        daemon.terminate()
        said = daemon.communicate()
    assert log.exists(), said
    assert "orders: 1 made exact" in log.read_text()
    facts = cron.facts("ask", "Who?", "-d", "tide.md", "-d", "wind.md")
    assert [document["hit"] for document in facts["documents"]] == ["exact", "exact"]
