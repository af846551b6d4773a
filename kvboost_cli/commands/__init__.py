"""The commands, one module each: parse, call, print.

A module ``NAME`` defines ``register(app)``, which adds its command or group to the typer app; ``GROUPS`` lists them in
the order of ``kvboost --help``. A command imports what is heavy inside its function body.
"""

GROUPS = {
    "Every day": (
        "index",
        "ask",
        "chat",
        "prewarm",
        "cron",
        "history",
        "stats",
    ),
    "Keeping the store in order": (
        "doctor",
        "budget",
        "pin",
        "prune",
        "compact",
        "forget",
    ),
    "Moving documents": (
        "export",
        "import",
    ),
    "Planning and measuring": (
        "plan",
        "bench",
    ),
    "Setting up": (
        "models",
        "config",
        "path",
    ),
}
MODULES = tuple(name for names in GROUPS.values() for name in names)
