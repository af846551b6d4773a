"""Every error that a user can meet, with its exit code and the next step to take.

Exit codes: 0 done, 1 runtime error, 2 usage, 3 some documents failed, 75 store busy, 130 interrupted.
Errors are looked up by the names of their class and its bases, nearest first: no package is imported for it.
"""

import traceback
from collections.abc import Mapping
from dataclasses import dataclass

import typer

from .. import console, settings


@dataclass(frozen=True, slots=True)
class Failure:
    """How an error ends the program."""

    exit_code: int
    next_step: str | None


_REPAIR = "run `kvboost doctor --repair`: it drops what is damaged; `kvboost index` then makes it anew"
_REINDEX = "run `kvboost index` again: it encodes anew what is damaged"
_OTHER_STORE = "choose another directory with --store; `kvboost path` shows the default one"
_MAKE_STORE = "run `kvboost index PATH` first, or choose a store with --store"
_RETRY = "run the same command again"

FAILURES: Mapping[str, Failure] = {
    # settings
    "SettingsError": Failure(
        2, "correct the flag, variable or file that it names; `kvboost config path` lists the files"
    ),
    "SettingsFileExists": Failure(2, "edit it, or give --force to replace it"),
    # kvboost_cli.model
    "ModelNotFound": Failure(
        1, "run `kvboost models pull` for the default model, or give --model a directory or a hub id"
    ),
    "InstallerMissing": Failure(
        1, "install pip beside it: `pipx inject kvboost-cli pip` or `uv tool install --with pip kvboost-cli`"
    ),
    "ModelDamaged": Failure(1, f"{_RETRY}; if it stays so, do not use the file"),
    "ModelDownloadFailed": Failure(1, f"check the name and the network, then {_RETRY}"),
    "ModelUnsupported": Failure(1, "choose another model with --model; the docs list what works"),
    "DeviceUnavailable": Failure(1, "use --device auto and --dtype auto"),
    "DeviceTooSmall": Failure(1, "free memory of the device, choose a smaller model with --model, or use --device cpu"),
    "ModelError": Failure(1, "choose another model with --model; `kvboost models list` shows the catalog"),
    # kvboost_cli.documents
    "PathNotFound": Failure(2, "check the spelling; a pattern must match at least one file"),
    "InvalidPattern": Failure(2, "write --glob and --exclude as in a .gitignore file, such as '*.md'"),
    "DocumentError": Failure(1, "leave it out, or replace it by a text file"),
    # kvboost_cli.retrieval
    "SearchIndexMissing": Failure(1, "run `kvboost index PATH` first, or name documents with -d"),
    "SearchIndexDamaged": Failure(1, "run `kvboost index PATH`: it makes the file anew"),
    "SearchIndexBusy": Failure(75, "wait until the other kvboost has ended, then " + _RETRY),
    "SearchIndexError": Failure(1, f"check permissions and free space of its disk, then {_RETRY}"),
    # kvboost_cli.pipelines
    "NothingFound": Failure(1, "use other words, or name documents with -d"),
    "NoDocuments": Failure(1, "give `kvboost index` a file or a folder that holds text"),
    "DocumentNotFound": Failure(2, "check the spelling, or index it first with `kvboost index PATH`"),
    "DocumentGone": Failure(2, "bring the file back, or forget it with `kvboost index PATH --prune`"),
    "NotInConversation": Failure(2, "name one by its number or name in `/docs`, or add it with `/add`"),
    "AmbiguousDocument": Failure(2, "give more of the document's path"),
    "PromptTooLong": Failure(1, "drop a document, lower --top-k, or shorten the question"),
    "ConversationTooLong": Failure(1, "take documents out with `/drop`, or begin a new conversation with `/new`"),
    "DeviceMemoryShort": Failure(
        1, "name fewer documents, lower --top-k or --max-tokens, index what is not in the store, or use --device cpu"
    ),
    "EmptyQuestion": Failure(2, "write the question after `kvboost ask`, or give - and pipe it in"),
    "SettingRefused": Failure(2, "choose another value; `kvboost index --help` lists them"),
    "BudgetRefused": Failure(2, "write a size as in `kvboost budget 20GB`, or `kvboost budget none`"),
    "ForeignKV": Failure(
        1,
        "give --model its own model, or import into another --store: a new one takes its settings",
    ),
    "SameStore": Failure(2, "name the other store, or choose the target with --store"),
    "FidelityNotMeasured": Failure(
        1, f"free some space for temporary files, or name another folder for them in TMPDIR; then {_RETRY}"
    ),
    "ProbesRefused": Failure(1, "use --bits 16, or choose another model with --model"),
    "PipelineError": Failure(1, _RETRY),
    # kvboost_cli.bundle
    "NotABundle": Failure(2, "name a file that `kvboost export` wrote, or a store's directory"),
    "BundleOfOtherVersion": Failure(1, "use the kvboost that wrote it"),
    "BundleDamaged": Failure(1, "nothing was stored; fetch the file again, or export it anew"),
    "BundleError": Failure(1, _RETRY),
    # kvboost_cli.bench
    "TooFewPassages": Failure(2, "name a folder with more text, or ask for fewer or shorter prompts"),
    "UnknownTask": Failure(2, "write --tasks as in `--tasks fact,summary`"),
    "OrderNotShared": Failure(2, "leave out variants with `alone/`, or use `--order given` or `score`"),
    "UnknownVariant": Failure(2, "write --variant as in `question:0.02` or `alone/cacheblend:0.15`"),
    "UnknownSize": Failure(2, "write --sizes as in `--sizes 900,4k,7.5k`"),
    "UnknownStrategy": Failure(2, "write --strategies as in `--strategies none,auto`"),
    "SizeTooLarge": Failure(2, "give smaller --sizes, or choose a --model with a longer context"),
    "WatchedRunFailed": Failure(1, "check the model with `kvboost doctor`, or leave out --memory"),
    "BenchPromptTooLong": Failure(2, "lower --documents or --passage-tokens"),
    "DocumentsNotStored": Failure(1, f"check free space for temporary files, then {_RETRY}"),
    "NotARun": Failure(2, "save a run with `kvboost bench quality --docs FOLDER --json > FILE`"),
    "RunsDiffer": Failure(2, "show them one by one"),
    "UnknownPicture": Failure(2, "give --plot a name such as frontier.png"),
    "NotFinite": Failure(1, "check the model with `kvboost doctor`, or choose another --model or --dtype"),
    "BenchError": Failure(1, _RETRY),
    # kvboost_cli.kv
    "QuantizationRange": Failure(1, "use --bits 16 for this model"),
    "KVError": Failure(1, _REINDEX),
    # kvboost_cli.scheduling
    "SchedulerMissing": Failure(1, "install cron or systemd, or run the line of `kvboost cron print` in another way"),
    "SchedulerFailed": Failure(1, "do what it asks for, or add what `kvboost cron print` shows by hand"),
    "BadSchedule": Failure(2, "write --schedule as in '30 2 * * *'; with --systemd as in 'Mon..Fri 02:30'"),
    "LineRefused": Failure(
        1, "use shorter paths without line breaks, set variables in a kvboost.toml, or take --systemd"
    ),
    "SchedulingError": Failure(1, _RETRY),
    # store
    "StoreNotFound": Failure(1, _MAKE_STORE),
    "NotAStore": Failure(1, _OTHER_STORE),
    "StoreExists": Failure(1, _OTHER_STORE),
    "UnknownFormat": Failure(1, "use the kvboost that wrote it, or another --store"),
    "ModelMismatch": Failure(
        1, "give --model the store's own model; if its files have changed, index into another --store"
    ),
    "RecipeMismatch": Failure(
        1, "leave out --bits, --contexts and --exact, run `kvboost index --force`, or choose another --store"
    ),
    "ForeignRecord": Failure(1, _REINDEX),
    "DamagedRecord": Failure(1, _REPAIR),
    "StoreDamaged": Failure(1, "move the store's directory away and run `kvboost index` again"),
    "StoreFull": Failure(
        1, "free disk space, raise `kvboost budget`, unpin documents, or choose a larger disk with --store"
    ),
    "StoreBusy": Failure(75, "wait until the other kvboost has ended, then " + _RETRY),
    "StoreReadonly": Failure(1, "make the directory writable, or choose another --store"),
    "StoreUnreadable": Failure(1, "check the permissions of the directory and its files"),
    "NetworkFileSystem": Failure(1, "choose a directory on a local disk with --store"),
    "StoreError": Failure(1, _RETRY),
    # kvboost_cli.commands
    "ChatCommandRefused": Failure(2, "`/help` lists the commands of a chat"),
    # Python and torch
    "KeyboardInterrupt": Failure(130, f"{_RETRY}: what was stored is kept"),
    "MemoryError": Failure(1, "close other programs, or use a smaller model or shorter documents"),
    "OutOfMemoryError": Failure(1, "use --device cpu, a smaller model or shorter documents"),
    "OSError": Failure(1, "check that the path exists, may be read and written, and has space left"),
}


def find_failure(error: BaseException) -> Failure | None:
    """The table's entry for ``error``, ``None`` for an error that nobody foresaw."""
    names = (cls.__name__ for cls in type(error).__mro__)
    return next((FAILURES[name] for name in names if name in FAILURES), None)


def describe(error: BaseException) -> tuple[str, str | None]:
    """The fact that ``error`` tells, in one line, and the next step to take."""
    failure = find_failure(error)
    return _fact(error), None if failure is None else failure.next_step


def report(error: BaseException, *, as_json: bool) -> int:
    """Print ``error`` as one line with its next step on stderr, and return the exit code."""
    if isinstance(error, typer.TyperException):
        console.fail(error.format_message(), _usage_step(error), as_json=as_json)
        return error.exit_code
    failure = find_failure(error)
    if failure is None:
        return _report_internal(error, as_json)
    console.fail(_fact(error), failure.next_step, as_json=as_json)
    return failure.exit_code


def _usage_step(error: typer.TyperException) -> str:
    context = getattr(error, "ctx", None)
    return f"`{context.command_path if context else 'kvboost'} --help` shows the usage"


def _fact(error: BaseException) -> str:
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


def _report_internal(error: BaseException, as_json: bool) -> int:
    if settings.debug_wanted():
        traceback.print_exception(error)
    fact = f"internal error: {type(error).__name__}: {error}"
    console.fail(fact, "please report it, with what KVBOOST_DEBUG=1 prints", as_json=as_json)
    return 1
