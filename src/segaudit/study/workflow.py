"""Run a study through Snakemake: checked before it starts, resumed where it stopped, one run at a time."""

from __future__ import annotations

import io
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stderr, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from segaudit.config.study_lock import StepRecord, StudyLock
from segaudit.errors import AuditError, Finding, raise_errors
from segaudit.provenance import digest_json
from segaudit.store import atomic, check_writable, lock_file
from segaudit.study.accounts import write_carbon
from segaudit.study.environments import INSTALL
from segaudit.study.jobs import DONE, STOP, is_held, mark, reason_of
from segaudit.study.locks import differences, freeze, read_lock, write_lock
from segaudit.study.plans import StudyPlan, plan_study
from segaudit.study.proofs import begun_with, read_proof, why_not
from segaudit.study.raw import RawCase, check_volumes

SNAKEFILE = Path(__file__).with_name("Snakefile")
PROFILES = Path(__file__).with_name("profiles")
_HELD = ".running"
_CHECKED = "checked.json"
_WARM_START_S = 300.0
_LOOK_S = 1.0

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True)
class StepState:
    """How far a step is.

    It is done, running, begun (an attempt that did not end), failed, left, or stale; the reason says why, what has
    changed, or what a running one said last.
    """

    step: StepRecord
    state: str
    reason: str
    seconds: float


def run_study(
    path: Path,
    *,
    profile: str = "",
    jobs: int | None = None,
    renew: bool = False,
    options: Sequence[str] = (),
    progress: Progress = lambda _what, _done, _total: None,
) -> list[StepState]:
    """Run what is left of a study; return the state of every step.

    Parameters
    ----------
    path : Path
        study.toml.
    profile : str
        Name of a profile that comes with the package (local, slurm, generic), or folder of another; local when empty.
    jobs : int, optional
        Steps at a time; as study.toml says when None.
    renew : bool
        Accept what has changed since the study began; the steps that rest on it are done again.
    options : sequence of str
        More options for Snakemake.
    progress : callable
        Told in words what is done, and how much of how much.

    Raises
    ------
    AuditError
        STUDY_EXTRA_MISSING, STUDY_HELD, STUDY_PROFILE_UNKNOWN, the codes of `plan_study` and of what has changed, one
        finding a faulty image or label, STUDY_STEP_FAILED.
    KeyboardInterrupt
        When the run was interrupted; its jobs have ended.
    """
    check_extra()
    plan = plan_study(path)
    folder = profile_folder(profile)
    _make_home(plan.home)
    home = plan.home.absolute()  # Snakemake works in the study's folder
    with running(plan.home):
        progress("reading images and labels", 0, 1)
        lock = begin(plan, renew=renew)
        progress("reading images and labels", 1, 1)
        refresh(plan.home, lock)
        command = [sys.executable, "-m", "segaudit", "study", "step", str(home)]
        # a job on another node cannot ask the warm process of this one
        warm = lock.machine["warm"] and executor_of(profile) == "local"
        with (
            _warm(home) if warm else nullcontext(command) as called,
            _told(home, lock, progress),
            _interruptible(home) as interrupted,
        ):
            code = _snakemake(home, lock, shlex.join(called), folder, jobs, options)
        states = status(plan.home, lock)
        failures = _failures(plan.home, lock) if code and not interrupted.is_set() else []
        with suppress(AuditError) if failures else nullcontext():
            write_carbon(plan, lock)
        raise_errors(failures)
    if interrupted.is_set():
        raise KeyboardInterrupt
    return states


def _make_home(home: Path) -> None:
    try:
        check_writable(home)
    except AuditError as error:
        fix = "name another folder in study.toml (output), or ask for the right to write."
        raise AuditError([replace(finding, fix=fix) for finding in error.findings]) from None
    home.mkdir(parents=True, exist_ok=True)


def check_extra() -> None:
    """Raise STUDY_EXTRA_MISSING when what trains is not installed."""
    lacking = [name for name in ("torch", "nnunetv2", "snakemake") if find_spec(name) is None]
    if lacking:
        fact = f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} not installed."
        raise AuditError(Finding("STUDY_EXTRA_MISSING", fact, sys.executable, INSTALL))


def profile_folder(name: str) -> Path:
    """Return the folder of a Snakemake profile.

    Raises
    ------
    AuditError
        STUDY_PROFILE_UNKNOWN.
    """
    shipped = {one.name: one for one in PROFILES.iterdir() if (one / "config.yaml").is_file()}
    folder = shipped.get(name or "local", Path(name))
    if not (folder / "config.yaml").is_file():
        fact = f"there is no profile '{name}'."
        fix = f"give one of {', '.join(sorted(shipped))}, or a folder with a config.yaml."
        raise AuditError(Finding("STUDY_PROFILE_UNKNOWN", fact, "--profile", fix))
    return folder


def executor_of(profile: str) -> str:
    """Return the name of Snakemake's executor that a profile chooses."""
    text = (profile_folder(profile) / "config.yaml").read_text(encoding="utf-8")
    named = re.search(r"(?m)^executor:\s*(\S+)", text)
    return named[1] if named else "local"


@contextmanager
def running(home: Path) -> Iterator[None]:
    """Hold a study against a second run; the lock is the system's and ends with the process."""
    with (home / _HELD).open("a+b") as file:
        if not lock_file(file):
            fact = f"another process runs the study in {home}."
            fix = "let it end; `segaudit study status` shows how far it is."
            raise AuditError(Finding("STUDY_HELD", fact, str(home), fix))
        yield


def begin(plan: StudyPlan, *, renew: bool = False) -> StudyLock:
    """Freeze the study, or compare it with what was frozen; check every image and label that was not checked yet."""
    lock = freeze(plan)
    if (plan.home / "lock.json").is_file() and not renew:
        changes = differences(read_lock(plan.home), lock)
        if changes:
            raise AuditError(changes)
    _check_volumes(plan, lock)
    write_lock(plan.home, lock)
    return lock


def _check_volumes(plan: StudyPlan, lock: StudyLock) -> None:
    """Read every image and label once, before anything is trained; what was read is not read again."""
    cases = {
        (e.case, e.image_sha256, e.label_sha256): RawCase(e.case, Path(e.image), Path(e.label), lock.coding(e))
        for one in lock.regimes
        for e in one.exams
        if not e.predicted
    }
    seen = {case for case, _, _ in cases}
    bare = {
        (case, lock.images[case], ""): RawCase(case, Path(path), None, {})
        for one in lock.regimes
        for case, path in one.predicted.items()
        if case not in seen
    }
    asked = digest_json([sorted([*cases, *bare]), lock.labels, lock.codings])
    note = plan.home / _CHECKED
    if note.is_file() and note.read_text(encoding="utf-8") == asked:
        return
    labels = {name: tuple(values) for name, values in lock.labels.items()}
    findings = check_volumes([*cases.values(), *bare.values()], labels)
    if errors := [finding for finding in findings if finding.level == "error"]:
        raise AuditError(errors)
    with atomic(note) as temporary:
        temporary.write_text(asked, encoding="utf-8")


def refresh(home: Path, lock: StudyLock) -> list[StepState]:
    """Remove the marks of steps that no proof bears out, so that Snakemake does them; return the states."""
    states = status(home, lock)
    for one in states:
        if one.state != "done":
            (home / DONE / one.step.name).unlink(missing_ok=True)
        elif not (home / DONE / one.step.name).is_file():
            mark(home, one.step.name)
    return states


def status(home: Path, lock: StudyLock, *, closely: bool = False) -> list[StepState]:
    """Return the state of every step, in an order in which they can be done."""
    found = []
    for step in lock.steps:
        proof, reason = read_proof(home, step.name), why_not(home, lock, step, closely=closely)
        if not reason:
            state = "done"
        elif proof is not None:
            state = "stale"
        else:
            state, reason = ("begun", "") if begun_with(home, step.name) else ("left", "")
        if state == "begun" and is_held(home, step.name):
            state, reason = "running", _last_line(_log(home, step.name))
        elif state != "done" and (why := reason_of(home, step.name)):
            state, reason = "failed", why.splitlines()[0]
        found.append(StepState(step, state, reason, proof.seconds if proof else 0.0))
    return found


def _failures(home: Path, lock: StudyLock) -> list[Finding]:
    found = []
    for one in status(home, lock):
        log = _log(home, one.step.name)
        if one.state == "failed":
            found.append(Finding("STUDY_STEP_FAILED", f"step '{one.step.name}': {one.reason}", str(log)))
        elif one.state == "begun":
            last = _last_line(log)
            fact = f"step '{one.step.name}' ended early{f': {last}' if last else '.'}"
            found.append(Finding("STUDY_STEP_FAILED", fact, str(log), "read its log, and run again."))
    if not found:
        fact = "the workflow ended before every step was done."
        found.append(Finding("STUDY_STEP_FAILED", fact, str(home / ".snakemake" / "log"), "run again."))
    return found


def _log(home: Path, step: str) -> Path:
    return home / "logs" / f"{step}.log"


def _last_line(log: Path) -> str:
    try:
        lines = [line.strip() for line in log.read_text(encoding="utf-8", errors="replace").splitlines()]
    except OSError:
        return ""
    return next((line for line in reversed(lines) if line), "")[:300]


@contextmanager
def _told(home: Path, lock: StudyLock, progress: Progress) -> Iterator[None]:
    """Tell how many steps are done while Snakemake, which says more than a person reads, goes to a log."""
    ended = threading.Event()

    def watch() -> None:
        while True:
            last = ended.wait(_LOOK_S)
            progress("steps", sum((home / DONE / step.name).is_file() for step in lock.steps), len(lock.steps))
            if last:
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


@contextmanager
def _interruptible(home: Path) -> Iterator[threading.Event]:
    """Tell the steps to end at a Ctrl-C, and whether one came: Snakemake waits for its jobs and says that it failed."""
    interrupted = threading.Event()
    (home / STOP).unlink(missing_ok=True)
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupted.set()
        (home / STOP).touch()
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, note)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def _snakemake(
    home: Path, lock: StudyLock, command: str, profile: Path, jobs: int | None, options: Sequence[str]
) -> int:
    """Run Snakemake in this process, so that both live and end together; return its exit status."""
    from snakemake.cli import args_to_api, parse_args
    from snakemake.exceptions import CliException
    from snakemake_interface_common.exceptions import WorkflowError

    machine = lock.machine
    threads = machine["threads"] + (machine["augmenters"] if machine["device"] == "cuda" else 0)
    at_once = jobs or machine["jobs"]
    argv = ["--snakefile", str(SNAKEFILE), "--directory", str(home), "--profile", str(profile), "--nolock"]
    argv += ["--quiet", "all"]
    argv += ["--config", f"home={home}", f"command={command}"]
    if profile == PROFILES / "local":
        argv += ["--cores", str(at_once * threads), "--jobs", str(at_once), "--resources", f"gpu={machine['gpus']}"]
    elif jobs is not None:
        argv += ["--jobs", str(jobs)]
    said = io.StringIO()
    try:
        with redirect_stderr(said):  # it names its profile, which the person who gave it knows
            parser, args = parse_args([*argv, *options])
        return int(not args_to_api(args, parser))
    except (SystemExit, CliException, WorkflowError) as error:
        told = said.getvalue().strip().rpartition("error: ")[2] or str(error)
        fact = f"Snakemake does not take what it is told: {told}"
        fix = "mend the profile's config.yaml, or what --snakemake gave; an unknown executor is a plugin to install."
        raise AuditError(Finding("STUDY_OPTIONS", fact, str(profile), fix)) from None


@contextmanager
def _warm(home: Path) -> Iterator[list[str]]:
    """Start the process that steps are forked from; give the command that asks it for a step."""
    folder = Path(tempfile.mkdtemp(prefix="segaudit-"))  # a socket's path must be short
    socket = folder / "warm"
    log = home / "logs" / "warm.log"
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as out:
        parent = subprocess.Popen(  # noqa: S603  (this interpreter, a module of ours)
            [sys.executable, "-m", "segaudit.study.warm", "serve", str(socket)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
        )
        try:
            until = time.monotonic() + _WARM_START_S
            while not socket.exists():
                if parent.poll() is not None or time.monotonic() > until:
                    fact = f"the process that steps are forked from did not start: {_last_line(log)}"
                    fix = "set warm = false in [machine], or read its log."
                    raise AuditError(Finding("STUDY_WARM_FAILED", fact, str(log), fix))
                time.sleep(0.05)
            yield [sys.executable, "-m", "segaudit.study.warm", "ask", str(socket), str(home)]
        finally:
            parent.terminate()
            parent.wait()
            shutil.rmtree(folder, ignore_errors=True)
