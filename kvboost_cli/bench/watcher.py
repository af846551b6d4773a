"""A small process that runs a command and adds a line to what it prints: its largest resident set in bytes.

It is small because a process begins its account with that of the one that it was split from. Run as a script, so it
imports nothing of kvboost.
"""

import resource
import signal
import subprocess
import sys

UNIT_BYTES = 1 if sys.platform == "darwin" else 1024
"""Of ``ru_maxrss``."""


def watch(command: list[str]) -> int:
    """Run the command to its end, and return its exit code; ending the watcher ends it, too."""
    process = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to the command as well
    code = process.wait()
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * UNIT_BYTES
    print(f"\n{peak_bytes}")
    return code


if __name__ == "__main__":
    sys.exit(watch(sys.argv[1:]))
