"""``kvboost cron``: have ``kvboost prewarm`` run by itself. Needs no torch."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from . import durations, options
from .pages import Page, Section

if TYPE_CHECKING:
    from ..scheduling.job import Job
    from ..settings import Settings

Systemd = Annotated[bool, typer.Option("--systemd", help="A systemd user timer instead of a crontab line.")]
Schedule = Annotated[
    str | None,
    typer.Option(metavar="TIME", help="When: cron's five fields or @daily; with --systemd its OnCalendar. Hourly."),
]
Top = Annotated[int | None, typer.Option(metavar="N", min=0, help="As for prewarm.")]
MaxTime = Annotated[str | None, typer.Option(metavar="TIME", help="As for prewarm.")]
PageCache = Annotated[bool, typer.Option("--page-cache", help="As for prewarm.")]
Log = Annotated[str | None, typer.Option(metavar="FILE", help="The log; by default one for each store.")]


def register(app: typer.Typer) -> None:
    """Add the group to ``app``."""
    group = typer.Typer(help="Have prewarm run by itself.", rich_markup_mode=None, cls=Section)
    group.command("print", cls=Page)(print_)
    group.command("install", cls=Page)(install)
    group.command("remove", cls=Page)(remove)
    group.command("status", cls=Page)(status)
    app.add_typer(group, name="cron")


def print_(
    store: options.Store = None,
    schedule: Schedule = None,
    top: Top = None,
    max_time: MaxTime = None,
    page_cache: PageCache = False,
    log: Log = None,
    systemd: Systemd = False,
) -> None:
    """Print the crontab line, or the units, that install would write."""
    from .. import console

    job = _job(store, log, _arguments(top, max_time, page_cache))
    console.write(_text(job, schedule, systemd=systemd))


def install(
    store: options.Store = None,
    schedule: Schedule = None,
    top: Top = None,
    max_time: MaxTime = None,
    page_cache: PageCache = False,
    log: Log = None,
    systemd: Systemd = False,
    quiet: options.Quiet = False,
) -> None:
    """Write one marked line into your crontab, in place of an earlier one for this store."""
    from store import ChunkStore

    from .. import console
    from ..scheduling import crontab_line
    from ..scheduling import systemd as units

    job = _job(store, log, _arguments(top, max_time, page_cache))
    with ChunkStore.open(job.store, readonly=True):
        pass  # a line for a store that is not there would fail night after night, unseen
    if systemd:
        units.install_timer(units.Timer(schedule or "hourly", job), units.unit_folder(os.environ))
    else:
        crontab_line.install_line(crontab_line.CronLine(schedule or f"{job.minute} * * * *", job))
    if not quiet:
        console.write(_text(job, schedule, systemd=systemd))
        console.say(f"installed; its runs are told in {job.log}")


def remove(store: options.Store = None, systemd: Systemd = False, quiet: options.Quiet = False) -> None:
    """Take the line, or the units, of this store out again."""
    from .. import console
    from ..scheduling import crontab_line
    from ..scheduling import systemd as units

    name = _job(store, None, ()).name
    removed = units.remove_timer(name, units.unit_folder(os.environ)) if systemd else crontab_line.remove_line(name)
    if not quiet:
        console.write_facts("removed\n" if removed else "nothing was installed for this store\n")


def status(store: options.Store = None, as_json: options.AsJson = False) -> None:
    """Show what is installed for this store, and the last line of its log."""
    from .. import console
    from ..scheduling import crontab_line, log_tail
    from ..scheduling import systemd as units

    job = _job(store, None, ())
    line = crontab_line.find_line(job.name) if crontab_line.is_available() else None
    timer = units.unit_paths(job.name, units.unit_folder(os.environ))[1]
    log = log_tail.find_log(line) or job.log
    facts = {
        "line": line,
        "timer": str(timer) if timer.exists() else None,
        "log": str(log),
        "last": log_tail.last_line(log),
    }
    if as_json:
        console.write_json(facts)
    else:
        console.write_facts("".join(f"{name}: {value or '-'}\n" for name, value in facts.items()))


def _arguments(top: int | None, max_time: str | None, page_cache: bool) -> tuple[str, ...]:
    """The options of prewarm that were given, checked now rather than at night."""
    if max_time is not None:
        durations.parse_duration(max_time, "--max-time")
    return (
        *([] if top is None else ["--top", str(top)]),
        *([] if max_time is None else ["--max-time", max_time]),
        *(["--page-cache"] if page_cache else []),
    )


def _job(store: str | None, log: str | None, arguments: tuple[str, ...]) -> "Job":
    from ..scheduling.job import Job, job_name, kept_environment
    from ..settings import find_project_file, user_log_dir

    settings = options.load({"store": store})
    directory = settings.store_dir.absolute()
    project = find_project_file(Path.cwd())
    return Job(
        script=_script(),
        store=directory,
        log=user_log_dir() / f"{job_name(directory)}.log" if log is None else Path(log).expanduser().absolute(),
        folder=None if project is None else project.parent,
        environment=_absolute_model(kept_environment(os.environ), settings),
        arguments=arguments,
    )


def _absolute_model(environment: tuple[tuple[str, str], ...], settings: "Settings") -> tuple[tuple[str, str], ...]:
    """The variables, a model's directory in them as an absolute path: the job runs elsewhere."""
    is_folder = settings.model is not None and Path(settings.model).expanduser().is_dir()
    return tuple(
        (name, str(Path(value).expanduser().absolute()) if name == "KVBOOST_MODEL" and is_folder else value)
        for name, value in environment
    )


def _script() -> Path:
    """The kvboost that runs now, else the one beside the interpreter."""
    own = Path(sys.argv[0]).absolute()
    return own if own.name == "kvboost" and own.is_file() else Path(sys.executable).with_name("kvboost")


def _text(job: "Job", schedule: str | None, *, systemd: bool) -> str:
    from ..scheduling import crontab_line
    from ..scheduling import systemd as units

    if not systemd:
        return crontab_line.CronLine(schedule or f"{job.minute} * * * *", job).text + "\n"
    timer = units.Timer(schedule or "hourly", job)
    paths = units.unit_paths(job.name, units.unit_folder(os.environ))
    return "\n".join(f"# {path}\n{text}" for path, text in zip(paths, (timer.service, timer.timer), strict=True))
