"""The examples at the foot of each command's ``--help``, by the command's name. The tests parse every one."""

from collections.abc import Mapping

EXAMPLES: Mapping[str, tuple[str, ...]] = {
    "index": (
        "kvboost index docs/",
        "kvboost index docs/ --prune                     # also forget files that are gone",
        "kvboost index docs/ --glob '*.md' --dry-run     # what it would take",
    ),
    "ask": (
        'kvboost ask "Who is on call?"                   # the search picks documents',
        'kvboost ask "What changed?" -d plans.md -d releases.md',
        "echo 'Which ports are open?' | kvboost ask - --report line",
        "kvboost ask -f questions.txt --json > answers.jsonl",
    ),
    "chat": (
        "kvboost chat -d on-call.md -d releases.md",
        "printf 'Who is on call?\\nAnd when?\\n' | kvboost chat -d on-call.md > answers.txt",
    ),
    "prewarm": ("kvboost prewarm --dry-run", "kvboost prewarm --page-cache --max-time 10m"),
    "cron print": ("kvboost cron print --schedule '30 2 * * *'",),
    "cron install": ("kvboost cron install --page-cache", "kvboost cron install --systemd --schedule 'Mon..Fri 02:30'"),
    "cron remove": ("kvboost cron remove",),
    "cron status": ("kvboost cron status",),
    "history clear": ("kvboost history clear",),
    "stats": (
        "kvboost stats",
        "kvboost stats --watch 5                         # look again every 5 seconds",
        "kvboost stats --html stats.html                 # a page for the browser",
    ),
    "doctor": ("kvboost doctor", "kvboost doctor --check       # read and check the whole store"),
    "budget": ("kvboost budget", "kvboost budget 20GB"),
    "pin": ("kvboost pin on-call.md", "kvboost pin --remove on-call.md"),
    "prune": ("kvboost prune --dry-run", "kvboost prune"),
    "compact": ("kvboost compact",),
    "forget": ("kvboost forget plans.md", "kvboost forget plans.md --compact    # and leave no byte of it"),
    "export": ("kvboost export all.kvb", "kvboost export part.kvb -d plans.md"),
    "import": ("kvboost import all.kvb", "kvboost import ../other/.kvboost"),
    "bench ttft": ("kvboost bench ttft --sizes 1k,4k",),
    "bench quality": ("kvboost bench quality --docs docs/ --n 20",),
    "bench kv-cache": ("kvboost bench kv-cache",),
    "bench eviction": ("kvboost bench eviction",),
    "bench index": ("kvboost bench index",),
    "plan": (
        "kvboost plan --context 32000                    # this store's model",
        "kvboost plan --layers 12 --kv-heads 12 --head-dim 64 --context 1024",
        "kvboost plan docs/ --budget 2GB                 # what would indexing take, and does it fit?",
    ),
    "models pull": ("kvboost models pull",),
    "models list": ("kvboost models list",),
    "config show": ("kvboost config show", "KVBOOST_BITS=4 kvboost config show"),
    "config path": ("kvboost config path",),
    "config init": ("kvboost config init", "kvboost config init --user"),
    "path": ("kvboost path", "kvboost path --json"),
}
