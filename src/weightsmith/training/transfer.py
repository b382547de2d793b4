"""``transfer``: transfer learning, the slides' recipe (seed 002) as one call.

1. Reuse the lower blocks of a trained network, adapt the inputs to it, and put a new head on top
   (:mod:`weightsmith.networks.editing.grafting`).
2. Freeze the reused blocks and train the head.
3. Unfreeze the top one or two reused blocks and continue at a reduced rate (:mod:`weightsmith.training.stages`).
4. If that did not help: drop or replace top blocks, by the amount of data, and repeat
   (:mod:`weightsmith.training.stages`; only on request, otherwise it is only advised).

The stages are compared on the same validation images, pair by pair, and the network of the best one is kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from weightsmith.core.errors import OptionError, UnknownName
from weightsmith.core.options import Range
from weightsmith.core.verbs import Doc, Seed, parameters, verb
from weightsmith.data.normalise import Normalise
from weightsmith.training.loop import train
from weightsmith.training.schedules import OwnSchedule, Schedule, as_schedule, read_schedule

if TYPE_CHECKING:
    from torch import nn

    from weightsmith.training.stages import Remedy
    from weightsmith.training.transferring import TransferRun

__all__ = ["NOT_OF_TRAIN", "transfer"]

NOT_OF_TRAIN = ("schedule", "keep")
"""Options of ``train`` that do not apply here: the stages have a ``rate``, and keep the best epochs themselves."""


@verb(types=("training.stages",))
def transfer(
    base: nn.Module | str | Path,
    data: Any,
    *,
    reuse: Annotated[
        int | None, Range(ge=1), Doc("blocks of the base to reuse; by default all but its output layer")
    ] = None,
    head: Annotated[Sequence[int] | int, Range(ge=1), Doc("widths of new hidden layers on top, as 64,32")] = (),
    dropout: Annotated[float, Range(ge=0, lt=1), Doc("dropout after each hidden layer of the head")] = 0.0,
    pool: Annotated[Literal["mean", "flatten"], Doc("how feature maps are reduced before the head")] = "mean",
    unfreeze: Annotated[
        int | Literal["all"], Range(ge=0), Doc("top blocks that the second stage frees: a number, or all")
    ] = 2,
    rate: Annotated[
        Schedule | float | str | None,
        Doc("rate or schedule of the frozen stage; by default the optimiser's usual rate", read=read_schedule),
    ] = None,
    finer: Annotated[float, Range(gt=0, le=1), Doc("factor of the rate when blocks are unfrozen")] = 0.1,
    epochs: Annotated[
        int | tuple[int, int],
        Range(ge=1, min_length=1),
        Doc("epochs of each stage, or of the frozen and the unfrozen one: 20,10"),
    ] = 10,
    remedy: Annotated[
        Remedy | str | None, Doc("what to try if unfreezing does not help: drop, replace, by-data:500")
    ] = None,
    accuracy: Annotated[
        float | None, Range(ge=0, le=1), Doc("validation accuracy to reach: while no stage has it, the remedy is tried")
    ] = None,
    validation: Annotated[
        float | None, Range(gt=0, lt=1), Doc("share of training rows for validation, if the data have none; 0.2")
    ] = None,
    normalise: Normalise = None,
    seed: Seed = 0,
    out: str | Path | None = None,
    **options: Any,
) -> TransferRun:
    """Make a network for ``data`` out of the trained network ``base`` (a module or a file).

    ``reuse`` blocks of the base are reused (by default all but its output layer); ``head`` are the widths of new hidden
    layers on top, ``dropout`` their dropout rate, and ``pool`` averages or flattens feature maps. In the second stage
    the top ``unfreeze`` blocks are trained too (0: no second stage), at ``finer`` times the ``rate``. ``epochs`` are
    those of the frozen and of the unfrozen stage. A ``remedy`` (``drop``, ``replace``, ``by-data``) is tried if the
    second stage did not help or, if an ``accuracy`` is given, while no stage has reached it. Without a validation
    split, ``validation`` (0.2) of the training rows become one. Inputs are normalised by the base's card, unless
    ``normalise`` is given. Further options are those of ``train``. With ``out``, a folder, the same call resumes an
    interrupted one, with the same layers frozen.

    >>> import weightsmith as ws
    >>> base = ws.networks.mlp(64, 32, 16, 10)
    >>> run = transfer(base, ws.data.load("digits"), epochs=(1, 1), rate=0.05, unfreeze=1)
    >>> [(stage.name, stage.frozen) for stage in run.stages]
    [('frozen', ('base.dense1.weight', 'base.dense1.bias', 'base.dense2.weight', 'base.dense2.bias')),
     ('top 1 unfrozen', ('base.dense1.weight', 'base.dense1.bias'))]
    """
    from weightsmith.training.optimisers import Momentum, Optimiser
    from weightsmith.training.plan import data_of
    from weightsmith.training.stages import TransferRecipe
    from weightsmith.training.transferring import base_network, ready_data, transferred

    optimiser = Optimiser.of(_checked(options).get("optimiser") or Momentum())
    each = (epochs,) if isinstance(epochs, int) else epochs
    if len(each) > 2:
        raise OptionError(f"epochs takes one number or two, as 20,10, not {list(each)}")
    schedule = as_schedule(rate, optimiser.usual_rate)
    if isinstance(schedule, OwnSchedule):
        raise OptionError("rate: a function cannot be made finer for the unfrozen stage; give a rate or a schedule")
    recipe = TransferRecipe(
        base=base_network(base, normalise),
        data=ready_data(data_of(data), validation, seed),
        top={"hidden": head, "dropout": dropout, "pool": pool},
        unfreeze=None if unfreeze == "all" else unfreeze,
        schedule=schedule,
        finer=finer,
        epochs=(each[0], each[-1]),
        seed=seed,
        out=None if out is None else Path(out),
        options={**options, "optimiser": optimiser},
    )
    return transferred(recipe, reuse, remedy, accuracy)  # type: ignore[arg-type]  # the verb has read the remedy


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    """The further options, each one of ``train`` and in its range."""
    own = (*NOT_OF_TRAIN, *parameters(transfer))
    known = {name: each for name, each in parameters(train).items() if name not in own}
    for name in options:
        if name not in (*known, "hooks", "progress"):
            raise UnknownName("option of transfer", name, [*known, "hooks", "progress", "rate (in place of schedule)"])
    return {name: known[name].check(value) if name in known else value for name, value in options.items()}
