"""The commands, one module each: parse, call, print.

A module ``NAME`` defines ``register(app)``, which adds its command or group to the typer app; ``MODULES``
lists them in the order of ``kvboost --help``. A command imports what is heavy inside its function body.
"""

MODULES = (
    "index", "ask", "stats", "doctor", "budget", "pin", "prune", "compact", "forget", "export", "import", "bench",
    "models", "path",
)  # fmt: skip
