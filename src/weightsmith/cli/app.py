"""The ``weightsmith`` command: its sub-commands, and the conversion of errors into a line and an exit code.

Exit codes: 0 done · 1 done, but something needs attention · 2 wrong usage · 3 a file that cannot be read or is
refused · 130 interrupted.
"""

from __future__ import annotations

import difflib
import io
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from weightsmith._version import __version__
from weightsmith.cli import (
    angles,
    data,
    demo,
    diff,
    doctor,
    evaluate,
    export,
    faces,
    grade,
    inspect,
    log,
    networks,
    pipeline,
    recipe,
    reduce,
    report,
    reproduce,
    spike,
    spike_sweep,
    study,
    sweep,
    tailor,
    theory,
    train,
    transfer,
)
from weightsmith.cli._figure_files import HELD
from weightsmith.cli._row_shares import takes_shares
from weightsmith.cli._verb_options import examples_of
from weightsmith.cli.terminal import Attention, say_error
from weightsmith.core.errors import WeightsmithError
from weightsmith.core.memory import bytes_text, free_memory

__all__ = ["app", "main"]

app = typer.Typer(
    name="weightsmith",
    help="A workshop for trained neural networks: train, grade, reduce, spike, report.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(data.app, name="data")
app.add_typer(networks.app, name="networks")
app.add_typer(sweep.app, name="sweep")
app.add_typer(recipe.app, name="recipe")
for _command in (
    train.train,
    transfer.transfer,
    grade.grade,
    reduce.reduce,
    angles.angles,
    study.study,
    spike.spike,
    spike_sweep.spike_sweep,
    export.export,
    theory.theory,
    reproduce.reproduce,
    inspect.inspect,
    evaluate.evaluate,
    log.log,
    diff.diff,
    faces.faces,
    pipeline.pipeline,
    tailor.tailor,
    report.report,
    demo.demo,
    doctor.doctor,
):
    app.command(_command.__name__.replace("_", "-"), epilog=examples_of(_command))(takes_shares(_command))


_INTERRUPTED = 130
# click's UsageError, reached through typer: some releases of typer bundle their own click.
_UsageError: Any = typer.BadParameter.__base__
_NOT_A_CHOICE = re.compile(r"(?:Value error, )?('([^']*)' is not one of (.*))\.$")


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"weightsmith {__version__}")
        raise typer.Exit


def _in_our_words(message: str) -> str:
    """Typer's message; one on a word that is not among the choices ends with the nearest of them.

    >>> _in_our_words("Invalid value for '--for': Value error, 'nri' is not one of 'nir'.")
    "Invalid value for '--for': 'nri' is not one of 'nir'; did you mean 'nir'?"
    """
    found = _NOT_A_CHOICE.search(message)
    if found is None:
        return message
    near = difflib.get_close_matches(found[2].lower(), re.findall(r"'([^']*)'", found[3]), n=1, cutoff=0.5)
    return message[: found.start()] + found[1] + (f"; did you mean {near[0]!r}?" if near else "")


@app.callback()
def _top(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error (allowed anywhere on the line).")
    ] = False,
) -> None:
    del version, debug  # both are handled before a sub-command runs


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and end the process with its exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"] or ["--help"]
    for printed in (sys.stdout, sys.stderr):
        if isinstance(printed, io.TextIOWrapper):  # an ASCII terminal shows a question mark for an α
            printed.reconfigure(errors="replace")
    try:
        # Without standalone mode click raises exceptions instead of printing several lines of usage.
        with HELD:
            code = app(words, standalone_mode=False, prog_name="weightsmith")
    except _UsageError as error:
        where = error.ctx.command_path if error.ctx else "weightsmith"
        say_error(f"{_in_our_words(error.format_message())} (see {where} --help)")
        code = 2
    except SystemExit as ended:  # raised by typer when the reader, such as head, closes the pipe
        code = 0 if isinstance(ended.__context__, BrokenPipeError) else ended.code
    except (KeyboardInterrupt, typer.Abort):
        code = _INTERRUPTED
    except Attention as notice:
        say_error(str(notice))
        code = 1
    except (MemoryError, RuntimeError) as error:  # torch raises RuntimeError when memory runs out
        said = str(error).partition("\n")[0]
        if debug or not (isinstance(error, MemoryError) or "can't allocate memory" in said):
            raise
        say_error(f"not enough memory: {bytes_text(free_memory())} free ({said or 'no details'})")
        code = 1
    except OSError as error:  # other system errors: a folder, a full disk, a name too long
        if debug:
            raise
        say_error(f"{error.filename or 'output'}: {error.strerror or error}")
        code = 3
    except WeightsmithError as error:
        if debug:
            raise
        say_error(str(error))
        code = error.exit_code
    if code == _INTERRUPTED:  # typer reports an interrupt only by the exit code
        say_error("interrupted")
    sys.exit(code if isinstance(code, int) else 0)
