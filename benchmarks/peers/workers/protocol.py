"""A worker's side of the conversation: one JSON object per line, a request in, a reply out, until the input ends."""

import json
import os
import sys
from collections.abc import Callable, Mapping
from typing import Any

Request = Mapping[str, Any]
Reply = dict[str, Any]


def serve(handlers: Mapping[str, Callable[[Request], Reply]], hello: Reply) -> None:
    """Say hello, then answer each request by the handler that its ``do`` names.

    Whatever a library prints goes to standard error, so that it cannot get between the lines.
    """
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _send(replies, hello)
    for line in sys.stdin:
        request = json.loads(line)
        _send(replies, handlers[request["do"]](request))


def _send(replies: Any, reply: Reply) -> None:
    replies.write(json.dumps(reply) + "\n")
    replies.flush()
