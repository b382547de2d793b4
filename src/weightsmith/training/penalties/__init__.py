"""Penalties on weights during training: regularisation terms, projections and proximal steps."""

from weightsmith.training.penalties.base import Penaliser, Penalty, Weight, weights_of
from weightsmith.training.penalties.elementwise import L1, L2, MaxNorm
from weightsmith.training.penalties.group_lasso import GroupLasso
from weightsmith.training.penalties.l4_balance import L4Balance
from weightsmith.training.penalties.spectral import SpectralNorm, StableRank

__all__ = [
    "L1",
    "L2",
    "GroupLasso",
    "L4Balance",
    "MaxNorm",
    "Penaliser",
    "Penalty",
    "SpectralNorm",
    "StableRank",
    "Weight",
    "weights_of",
]
