"""The records of the gradient diagnosis, and the limits of its verdicts.

The sensitivity of a layer, s = ∂loss/∂n with n its net input, is handed down from the layer above it (seed 002, eq. 8),

    sᵏ = sᵏ⁺¹ (Wᵏ⁺¹)ᵀ F'(nᵏ)

so it shrinks or grows by a factor per layer. Each layer is compared with the last one, where the loss sets the scale,
and its update with its own weights: :mod:`weightsmith.training.diagnosis.probe` takes the readings,
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
    "SHRUNK",
    "GradientDiagnosis",
    "Health",
    "LayerGradients",
    "Reading",
]

# Sensitivity of a layer over that of the last one. Measured before and during training on digits, Fashion-MNIST and
# CIFAR-10: networks that train lie between 0.004 and 240 (the latter: 20 ReLU layers with batch norm behind each, which
# is known to enlarge gradients). A sigmoid takes a factor 4 per layer: 0.003 at 5 layers, which still learn, 0.0007 at
# 6, 1e-12 at 20. ReLU layers with weights three times too large give 1e9 at 20, ten times too large 1e4 at 5.
SHRUNK, GROWN = 1e-3, 1e3

# ‖Δθ‖ / ‖θ‖ of one step. Networks that train show 1e-4 to 0.9; above 1 a step overwrites what it starts from, and in
# every run seen to do so after its first step the loss grew beyond where it began. The first step is allowed more:
# small first weights, and those before a batch norm (4.4 at rate 0.1, 0.03 fifty steps later), are soon outgrown.
LARGEST_UPDATE, LARGEST_FIRST_UPDATE = 1.0, 10.0


class Health(enum.Enum):
    """The verdict on the gradients of a layer, from good to bad; a frozen layer is not judged.

    Exploding comes last: it is the cause of values that are not finite.
    """

    FROZEN = "frozen"
    HEALTHY = "healthy"
    VANISHING = "vanishing"
    DEAD = "dead"
    NOT_FINITE = "not finite"
    EXPLODING = "exploding"

    @property
    def severity(self) -> int:
        """The rank in the order above."""
        return list(Health).index(self)


@dataclasses.dataclass(frozen=True, eq=False)
class Reading(Record):
    """The measurements of one layer at one step.

    ``gradient`` is the norm of the gradient of its parameters, ``uses`` the number of its net inputs that a gradient
    arrived at, ``trained`` whether any of its parameters is trainable. What is missing or not finite is None:
    ``finite`` distinguishes the two, and ``output_finite`` says whether the forward pass was finite.
    """

    sensitivity: float | None
    update: float | None
    gradient: float | None
    uses: int
    finite: bool
    output_finite: bool
    trained: bool


@dataclasses.dataclass(frozen=True, eq=False)
class LayerGradients(Record):
    """One layer over all probes: sensitivities, updates relative to the weights, the verdict and its evidence.

    A number is None where there is none (a layer whose net input cannot be seen, weights that are all zero) or where it
    is not finite.
    """

    name: str
    sensitivity: tuple[float | None, ...]
    update: tuple[float | None, ...]
    health: Health
    reason: str


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
