"""Which rate of dropout suits convolutional and which recurrent networks (slides)?"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weightsmith.core.statistics import Comparison
from weightsmith.core.sweep import SweepTable, grid
from weightsmith.papers.claims import Claim, Finding, by_interval, combined, paired, worded
from weightsmith.papers.experiments.drawing import draw_lines
from weightsmith.papers.experiments.trained import means, train_row, training_data, values
from weightsmith.papers.reproduction import Experiment, Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import nn

__all__ = ["EXPERIMENT", "measure", "recurrent"]

_CNN, _RNN = "convolutional", "recurrent"
_SAID = {_CNN: 0.45, _RNN: 0.25}  # the middle of the slides' range
_RATES = (0.0, 0.1, 0.25, 0.45, 0.6)
_NETWORKS = {
    _CNN: "cnn:8,16,dense=[64],dropout={rate}",
    _RNN: "weightsmith.papers.experiments.dropout_rates:recurrent,pixels={pixels},dropout={rate}",
}


def measure(
    *, seed: int, data: str, path: str | Path | None, kind: str, rate: float, rows: int, epochs: int
) -> dict[str, Any]:
    """A small CNN, or a GRU that reads an image row by row, with dropout before the output; a fifth validates."""
    known = training_data(data, path, rows)
    return train_row(
        known,
        seed,
        network=_NETWORKS[kind].format(rate=rate, pixels=known.input_shape[-1]),
        optimiser="adam",
        schedule="constant:0.003",
        batch=32,
        epochs=epochs,
        validation=0.2,
    )


def recurrent(pixels: int, dropout: float, units: int = 48, classes: int = 10) -> nn.Module:
    """A GRU over the rows of ``pixels`` pixels of an image, dropout on its last state, and an output layer."""
    import torch

    class LastState(torch.nn.Module):
        """The state after the last row."""

        def forward(self, found: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
            """The last of the outputs at every row."""
            return found[0][:, -1]

    return torch.nn.Sequential(
        torch.nn.Flatten(1, 2),
        torch.nn.GRU(pixels, units, batch_first=True),
        LastState(),
        torch.nn.Dropout(dropout),
        torch.nn.Linear(units, classes),
    )


def _judge(table: SweepTable) -> Sequence[Finding]:
    """The rate of the slides against the best of the others by validation, tested; both kinds beside each other."""

    def tested(kind: str, rate: float) -> Any:
        return values(table, "test_accuracy", kind=kind, rate=rate)

    tests: dict[str, Comparison] = {}
    words = []
    for kind, said in _SAID.items():
        validated = means(table, "best_validation_accuracy", "rate", kind=kind)
        best = max(validated, key=lambda rate: validated[rate])
        other = max((rate for rate in validated if rate != said), key=lambda rate: validated[rate])
        tests[kind] = paired(tested(kind, said), tested(kind, other))
        words.append(
            f"{kind}: {100 * said:g} % against {100 * other:g} %, the best of the others on validation rows, "
            f"{worded(tests[kind])}, best of all {100 * best:g} %"
        )
    more = {kind: tested(kind, _SAID[_CNN]) - tested(kind, _SAID[_RNN]) for kind in _SAID}
    return [
        combined(
            "rates-by-kind",
            [by_interval("rates-by-kind", found, "") for found in tests.values()],
            "; ".join(words),
            ours=f"{worded(tests[_CNN])} and {worded(tests[_RNN])}",
        ),
        by_interval(
            "higher",
            paired(more[_CNN], more[_RNN]),
            f"45 % instead of 25 % changes the test accuracy by {100 * more[_CNN].mean():+.2f} points in the "
            f"convolutional and by {100 * more[_RNN].mean():+.2f} in the recurrent network",
        ),
    ]


def _draw(table: SweepTable) -> Figure:
    """Test accuracy against the rate, by kind of network."""
    return draw_lines(
        table, x="rate", y="test_accuracy", line="kind", names=("dropout rate", "test accuracy, %"), scale=100
    )


EXPERIMENT = Experiment(
    name="dropout-rates",
    document="training",
    says="The slides give rates of dropout by kind of network: 40 to 50 % for convolutional, 20 to 30 % for recurrent "
    "ones.",
    claims=(
        Claim(
            "rates-by-kind",
            "dropout",
            "Dropout of 40 to 50 % suits convolutional networks, 20 to 30 % recurrent ones.",
            "test accuracy at 45 % (25 %) above that at the other rate of best mean validation, beyond the interval",
        ),
        Claim(
            "higher",
            "dropout",
            "Convolutional networks want a higher rate than recurrent ones.",
            "change of the test accuracy from 25 to 45 % better for the convolutional network, beyond the interval",
        ),
    ),
    measure=measure,
    full=Settings(
        grid(kind=tuple(_SAID), rate=_RATES),
        seeds=range(5),
        data="fashion-mnist",
        all={"rows": 1_000, "epochs": 12},
    ),
    quick=Settings(
        grid(kind=tuple(_SAID), rate=(0.0, 0.25, 0.45)), seeds=(0, 1), data="digits", all={"rows": 200, "epochs": 1}
    ),
    judge=_judge,
    shows=("test_accuracy", "best_validation_accuracy", "train_accuracy"),
    draw=_draw,
    how="Mean over seeds with standard deviation.",
    notes=("all networks are small and see 800 images: rates that suit larger ones may differ",),
    minutes=3.0,
)
