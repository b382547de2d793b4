"""Activations by name, with the constants of the slides on training deep networks (seed 002) written out.

Libraries disagree on one of them: the slope of LeakyReLU below zero is 0.01 in torch and 0.2 or 0.3 in Keras, so
here it is always part of the name: ``leaky-relu:0.01``.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from torch import nn

from weightsmith.core.options import Option, param
from weightsmith.networks.models.dropout import DropoutKind

__all__ = ["Activation", "Elu", "Gelu", "Identity", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Swish", "Tanh"]


class Activation(Option):
    """The family of activations, each with the initialiser and the kind of dropout that keep signals in scale."""

    initialiser: ClassVar[str] = "glorot-uniform"
    dropout: ClassVar[DropoutKind] = "inverted"

    @abstractmethod
    def module(self) -> nn.Module:
        """A fresh torch module that computes it."""


class Sigmoid(Activation, name="sigmoid"):
    """σ(z) = 1 / (1 + exp(−z)).

    >>> import torch
    >>> Sigmoid().module()(torch.tensor(0.0))
    tensor(0.5000)
    """

    def module(self) -> nn.Module:
        """A torch sigmoid."""
        return nn.Sigmoid()


class Tanh(Activation, name="tanh"):
    """tanh(z)."""

    def module(self) -> nn.Module:
        """A torch tanh."""
        return nn.Tanh()


class Relu(Activation, name="relu"):
    """max(0, z); initialised by He, whose factor 2 compensates for the half that is cut off."""

    initialiser = "he-normal"

    def module(self) -> nn.Module:
        """A torch ReLU, not in place: conversion and diagnosis read its input and its output."""
        return nn.ReLU()


class LeakyRelu(Activation, name="leaky-relu"):
    """z for z > 0, slope·z below.

    >>> import torch
    >>> LeakyRelu(0.3).module()(torch.tensor(-1.0))
    tensor(-0.3000)
    """

    initialiser = "he-normal"
    slope: float = param(default=0.01, ge=0, lt=1, doc="factor below zero (torch 0.01, Keras 0.3)")

    def module(self) -> nn.Module:
        """A torch LeakyReLU with this slope."""
        return nn.LeakyReLU(self.slope)


class Elu(Activation, name="elu"):
    """z for z > 0, α(exp(z) − 1) below; α = 1 in the slides (eq. 13).

    >>> import torch
    >>> Elu().module()(torch.tensor(-1.0))
    tensor(-0.6321)
    """

    initialiser = "he-normal"
    alpha: float = param(default=1.0, gt=0, doc="minus the limit for z → −∞")

    def module(self) -> nn.Module:
        """A torch ELU with this alpha."""
        return nn.ELU(self.alpha)


class Selu(Activation, name="selu"):
    """Scaled ELU with the constants of Klambauer et al. (2017), with LeCun-normal weights and alpha dropout.

    >>> import torch
    >>> Selu().module()(torch.tensor([1.0, -1.0]))
    tensor([ 1.0507, -1.1113])
    """

    initialiser = "lecun-normal"
    dropout = "alpha"

    def module(self) -> nn.Module:
        """A torch SELU."""
        return nn.SELU()


class Gelu(Activation, name="gelu"):
    """z·Φ(z), Φ the normal distribution function (Hendrycks & Gimpel 2016); exact, not its tanh approximation.

    >>> import torch
    >>> Gelu().module()(torch.tensor([1.0, -1.0]))
    tensor([ 0.8413, -0.1587])
    """

    initialiser = "he-normal"

    def module(self) -> nn.Module:
        """A torch GELU."""
        return nn.GELU()


class Swish(Activation, name="swish"):
    """z·σ(z), also called SiLU (Ramachandran, Zoph & Le 2017, with β = 1).

    >>> import torch
    >>> Swish().module()(torch.tensor([1.0, -1.0]))
    tensor([ 0.7311, -0.2689])
    """

    initialiser = "he-normal"

    def module(self) -> nn.Module:
        """A torch SiLU."""
        return nn.SiLU()


class Identity(Activation, name="identity"):
    """z itself: a linear network, to compare with."""

    def module(self) -> nn.Module:
        """A torch identity."""
        return nn.Identity()
