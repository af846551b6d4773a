"""A chat as it runs: messages are read, commands obeyed and questions answered, until the end."""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .. import console
from . import answering, chat_commands, chat_input, chat_output, failures, gating

if TYPE_CHECKING:
    from ..pipelines.asking import AskRequest
    from ..pipelines.conversation import Conversation
    from ..pipelines.report import AskReport
    from ..pipelines.talking import StartedTurn
    from ..pipelines.workspace import Workspace
    from ..settings import Settings


@dataclass
class Chat:
    """What a chat goes by, and how far it has come.

    ``report`` is how much is told of each turn. On a terminal (``is_terminal``) Ctrl-C ends an answer, not the chat.
    ``gate`` is None until a question needs the model, and again when the store has got something to reuse.
    """

    workspace: "Workspace"
    settings: "Settings"
    conversation: "Conversation"
    seed: int | None
    report: str
    as_json: bool
    quiet: bool
    is_terminal: bool
    gate: gating.Gate | None = None
    num_asked: int = 0

    def run(self, read: chat_input.ReadMessage) -> int:
        """Go on until there is nothing more to read, or until ``/quit``; the number of messages that failed."""
        num_failed = 0
        while (message := read()) is not None:
            try:
                if not self._take(message):
                    break
            except BrokenPipeError:
                raise
            except KeyboardInterrupt:
                if not self.is_terminal:
                    raise
                console.say("interrupted")
            except Exception as error:
                if failures.find_failure(error) is None:
                    raise
                num_failed += 1
                answering.tell_failure(message, error, as_json=self.as_json)
        return num_failed

    def _take(self, message: str) -> bool:
        """Obey or answer one message; whether the chat goes on."""
        if chat_commands.is_command(message):
            after = chat_commands.run_command(self.workspace, self.conversation, message)
            if after is None:
                return False
            self.conversation = after
        elif message.strip():
            self._answer(chat_input.readable(message.strip()))
        return True

    def _answer(self, question: str) -> None:
        """Answer, report, and keep what had to be computed for the documents.

        Ctrl-C on a terminal ends the answer: what there is of it is kept as the turn's.
        """
        from ..pipelines import talking

        run = self._get_ready(question)
        request = answering.make_request(self.settings, question, (), self.seed, run.gate)
        started = talking.start_turn(self.workspace, request, self.conversation)
        self._tell(started)
        is_whole = answering.decode(run, started.answer)
        self.conversation = talking.finish_turn(
            self.workspace, request, started, None if is_whole else answering.INTERRUPTED, gate_s=run.gate.check_s
        )
        report = self.conversation.turns[-1].report
        run.show(request, report)
        if not is_whole and not self.is_terminal:
            raise KeyboardInterrupt
        if is_whole and not started.num_live and not run.gate.full_prefill:
            answering.keep(run, started.answer, report)
            self.gate = None

    def _get_ready(self, question: str) -> answering.Answering:
        """Load the model, the first time, and see whether stored KV may be used with it."""
        self.num_asked += 1
        if not self.is_terminal and not self.quiet:
            console.say(f"[{self.num_asked}] {question}")
        if self.is_terminal and not self.quiet and self.num_asked == 1:
            console.say("loading the model")
        _ = self.workspace.handle.loaded
        if self.gate is None or self.conversation.live is None:
            self.gate = gating.check_before_ask(self.workspace, quiet=self.quiet)
        return answering.Answering(
            self.workspace, self.gate, verify=False, streams=not self.as_json, quiet=self.quiet, show=self._show,
            history=self.settings.history,
        )  # fmt: skip

    def _tell(self, started: "StartedTurn") -> None:
        """What has to be known before the answer; in a file an empty line stands between answers."""
        for reason in started.answer.passed_over:
            console.warn(f"passed over, {reason}")
        if started.notice is not None and not self.quiet:
            console.say_wrapped(started.notice)
        if self.conversation.turns and not self.as_json and not sys.stdout.isatty():
            console.write("\n")

    def _show(self, request: "AskRequest", report: "AskReport") -> None:
        if self.as_json:
            turn = len(self.conversation.turns)
            console.write_json_line({"turn": turn, "question": request.question, **report.to_json()})
        else:
            chat_output.SHOWN[self.report](report)
