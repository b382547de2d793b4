"""The records of the gradient diagnosis, and the limits of its verdicts.

The sensitivity of a layer, s = ∂loss/∂n with n its net input, is handed down from the layer above it (seed 002, eq. 8),

    sᵏ = sᵏ⁺¹ (Wᵏ⁺¹)ᵀ F'(nᵏ)

so it shrinks or grows by a factor per layer. Each layer is compared with the last one, where the loss sets the scale,
and its update with its own weights. Recurrent layers hand the gradient down from time step to time step as well
(:mod:`weightsmith.training.diagnosis.through_time`). :mod:`weightsmith.training.diagnosis.probe` takes the readings,
:mod:`weightsmith.training.diagnosis.verdicts` judges them.
"""

from __future__ import annotations

import dataclasses
import enum

from weightsmith.core.records import Record

__all__ = [
    "GROWN",
    "LARGEST_FIRST_UPDATE",
    "LARGEST_UPDATE",
    "MOST_DEAD",
    "MOST_SATURATED",
    "SCALE",
    "SHRUNK",
    "GradientDiagnosis",
    "Health",
    "LayerGradients",
    "Reading",
    "ThroughTime",
]

# Sensitivity of a layer over that of the last one. Measured before and during training on digits, Fashion-MNIST and
# CIFAR-10: networks that train lie between 0.004 and 240 (the latter: 20 ReLU layers with batch norm behind each, which
# is known to enlarge gradients). A sigmoid takes a factor 4 per layer: 0.003 at 5 layers, which still learn, 0.0007 at
# 6, 1e-12 at 20. ReLU layers with weights three times too large give 1e9 at 20, ten times too large 1e4 at 5.
SHRUNK, GROWN = 1e-3, 1e3

# ‖Δθ‖ / ‖θ‖ of one step. Networks that train show 1e-4 to 0.9; above 1 a step overwrites the weights, and in every run
# that did so after its first step the loss grew beyond its first value. The first step is allowed more: small initial
# weights, and those before a batch norm (4.4 at rate 0.1, 0.03 fifty steps later), soon grow.
LARGEST_UPDATE, LARGEST_FIRST_UPDATE = 1.0, 10.0

# Shares of a layer's units without gradient in all later probes, and of activations beyond the bend of a sigmoid or
# tanh. Dense networks that learn digits and Fashion-MNIST show up to 0.19 and 0.04 after six epochs; twenty ReLU layers
# of 32 units, which train, up to 0.66 dead at their first steps.
MOST_DEAD, MOST_SATURATED = 0.75, 0.5

# Root mean square of the non-zero values that enter the first layer; normalised data have about 1, pixels 0 to 255
# about 130. Its gradient is proportional to them, so one rate cannot suit it and the layers above.
SCALE = (0.01, 10.0)


class Health(enum.Enum):
    """The verdict on the gradients of a layer, from good to bad; a frozen layer is not judged.

    A layer that could not be measured is not called healthy. A cause comes after its effect: saturated units make
    gradients vanish, exploding gradients lead to values that are not finite, and badly scaled inputs, a verdict on the
    whole network, may cause all of them.
    """

    FROZEN = "frozen"
    HEALTHY = "healthy"
    NOT_MEASURED = "not measured"
    VANISHING = "vanishing"
    SATURATED = "saturated"
    DEAD = "dead"
    NOT_FINITE = "not finite"
    EXPLODING = "exploding"
    BADLY_SCALED = "badly scaled inputs"

    @property
    def severity(self) -> int:
        """The rank in the order above."""
        return list(Health).index(self)

    @property
    def calls_for_action(self) -> bool:
        """Whether the verdict is a problem for training."""
        return self.severity > Health.NOT_MEASURED.severity


@dataclasses.dataclass(frozen=True, eq=False)
class ThroughTime(Record):
    """The gradient of the loss at the first of ``steps`` time steps over that at the last it reaches (``ratio``), and
    how many time steps, counted from the last, it reaches with at least a thousandth of its size."""

    ratio: float
    reach: int
    steps: int


@dataclasses.dataclass(frozen=True, eq=False)
class Reading(Record):
    """The measurements of one layer at one step.

    ``gradient`` is the norm of the gradient of its parameters, ``uses`` the number of its net inputs that a gradient
    arrived at, ``trained`` whether any of its parameters is trainable. A value that is missing or not finite is None:
    ``finite`` distinguishes the two, and ``output_finite`` says whether the forward pass was finite. ``idle`` marks the
    units that no image gave a gradient (a 1 each, in order), ``saturated`` is the share of flat activations behind it,
    ``scale`` the root mean square of the non-zero values that enter it; ``through_time`` is for recurrent layers.
    """

    sensitivity: float | None
    update: float | None
    gradient: float | None
    uses: int
    finite: bool
    output_finite: bool
    trained: bool
    idle: str | None = None
    saturated: float | None = None
    scale: float | None = None
    through_time: ThroughTime | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class LayerGradients(Record):
    """One layer over all probes: sensitivities, updates relative to the weights, the verdict and its evidence.

    A number is None where there is none (a layer whose net input cannot be seen, weights that are all zero) or where it
    is not finite. ``dead`` is the share of units without gradient in all later probes, ``saturated`` the share of flat
    activations behind it, ``through_time`` the ratio of a recurrent layer's gradients at the first and last step.
    """

    name: str
    sensitivity: tuple[float | None, ...]
    update: tuple[float | None, ...]
    health: Health
    reason: str
    dead: float | None = None
    saturated: float | None = None
    through_time: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class GradientDiagnosis(Record):
    """All layers in the order of the forward pass; ``probes`` are the steps measured, ``health`` is the worst.

    ``reference`` is the layer whose sensitivity the others are compared with; None if no gradient was seen at all.
    """

    probes: tuple[int, ...]
    layers: tuple[LayerGradients, ...]
    reference: str | None
    health: Health
    sentence: str

    def __str__(self) -> str:
        return self.sentence
