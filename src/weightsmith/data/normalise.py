"""Per-channel normalisation of inputs, with one text form.

    z = (x − mean) / std        x in [0, 1]; uint8 pixels are divided by 255 first

The text form is a name (``none``, ``imagenet``, ``cifar10`` …) or the values themselves, ``m1,m2,m3/s1,s2,s3``;
``str`` writes it and :meth:`Normalisation.parse` reads it back. Statistics of a data set are those of its training
images, over all pixels of a channel. ``standard`` uses the statistics of the rows that a network is trained on, for
each column of a table separately: training fits it, and the network's card keeps the values.

>>> Normalisation.parse("0.5/0.5")
Normalisation(mean=(0.5,), std=(0.5,), name='0.5/0.5')
>>> str(Normalisation.parse("cifar10")), str(Normalisation((0.1, 0.2), (1, 2)))
('cifar10', '0.1,0.2/1.0,2.0')
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from weightsmith.core.errors import DataMismatch, OptionError, UnknownName, brief
from weightsmith.core.records import Record
from weightsmith.core.verbs import Doc

if TYPE_CHECKING:
    from torch import Tensor

__all__ = [
    "CIFAR10",
    "CIFAR100",
    "FASHION_MNIST",
    "HALF",
    "IMAGENET",
    "MNIST",
    "NONE",
    "STANDARD",
    "Normalisation",
    "Normalise",
]

_STANDARD = "standard"
_PIECE = 1024  # rows that are read together
_TINY = 1e-6  # of a column's size: a deviation below it is rounding of float32, and the column constant


# Of the training images of each set (population deviation); those of imagenet are the usual rounded values.
_NAMED: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "none": ((), ()),
    "0.5/0.5": ((0.5,), (0.5,)),
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "cifar10": ((0.49139968, 0.48215841, 0.44653091), (0.24703223, 0.24348513, 0.26158784)),
    "cifar100": ((0.5070751592, 0.4865488733, 0.4409178434), (0.2673342859, 0.2564384629, 0.2761504713)),
    "mnist": ((0.13066048,), (0.3081078,)),
    "fashion-mnist": ((0.2860406,), (0.35302424,)),
}


@dataclass(frozen=True, eq=False)
class Normalisation(Record):
    """(x − mean) / std per channel. One value applies to all channels; no values leave [0, 1] unchanged.

    The name is derived from the values unless given.
    """

    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "mean", tuple(float(value) for value in self.mean))
        object.__setattr__(self, "std", tuple(float(value) for value in self.std))
        object.__setattr__(self, "name", self.name or _text(self.mean, self.std))
        if _NAMED.get(self.name, (self.mean, self.std)) != (self.mean, self.std):
            raise OptionError(f"normalisation {self.name}: the name stands for other values")
        if self.name not in (*_NAMED, _STANDARD) and self.name != _text(self.mean, self.std):
            raise UnknownName("normalisation", self.name, (*_NAMED, _STANDARD))
        if len(self.mean) != len(self.std):
            raise OptionError(f"normalisation {self.name}: {len(self.mean)} means but {len(self.std)} deviations")
        if not all(map(math.isfinite, self.mean + self.std)) or min(self.std, default=1.0) <= 0:
            raise OptionError(f"normalisation {self.name}: means must be finite, deviations finite and > 0")

    @classmethod
    def parse(cls, text: str) -> Normalisation:
        """The normalisation that ``text`` names or spells out.

        >>> Normalisation.parse("imagnet")
        Traceback (most recent call last):
        weightsmith.core.errors.UnknownName: unknown normalisation 'imagnet'; did you mean 'imagenet'? ...
        """
        text = text.strip()
        if text.lower() in _NAMED:
            return cls(*_NAMED[text.lower()], name=text.lower())
        if text.lower() == _STANDARD:
            return STANDARD
        means, slash, deviations = text.partition("/")
        if not slash:
            raise UnknownName("normalisation", text, [*_NAMED, _STANDARD, "m1,m2,m3/s1,s2,s3"])
        return cls(_numbers(means, text), _numbers(deviations, text))

    @classmethod
    def of(cls, given: Normalisation | str | None) -> Normalisation | None:
        """The normalisation of an object or text (also ``none``); None if nothing is given."""
        if given is not None and not isinstance(given, str | Normalisation):
            raise OptionError(f"a normalisation is given by its name, such as 0.5/0.5, not {brief(given)}")
        return cls.parse(given) if isinstance(given, str) else given

    def __str__(self) -> str:
        return self.name

    def apply(self, x: Tensor) -> Tensor:
        """A new tensor (x − mean) / std, for images ``(n, c, h, w)`` by channel, else by the last axis (features).

        Whole numbers (tokens) are not converted if there is nothing to normalise.
        """
        import torch

        if self.unfitted:
            raise OptionError(
                "normalisation standard is fitted when a network is trained, and its card keeps it; give the values "
                "(m1,m2/s1,s2) or none"
            )

        # In place on our own tensors: allocating large new ones takes longer than the arithmetic.
        if x.dtype == torch.int64:
            unit = x.to(torch.float32) if self.mean else x
        else:
            unit = x.to(torch.float32).div_(255) if x.dtype == torch.uint8 else _floats(x)
        if not self.mean:
            return unit.clone() if unit is x else unit
        mean, std = self._shaped(unit)
        return (unit - mean if unit is x else unit.sub_(mean)).div_(std)

    @property
    def unfitted(self) -> bool:
        """Whether this is ``standard`` without values yet."""
        return self.name == _STANDARD and not self.mean

    def fitted(self, x: Tensor) -> Normalisation:
        """``standard`` with the means and deviations of ``x`` (population; 1 where a column is constant); others as is.

        >>> import torch
        >>> STANDARD.fitted(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))
        Normalisation(mean=(2.0, 5.0), std=(1.0, 1.0), name='standard')
        """
        if not self.unfitted:
            return self
        import torch

        from weightsmith.data.streams.rows import slices_of

        axes = {2: [0], 3: [0, 1], 4: [0, 2, 3]}[x.ndim]
        count = x.numel() // x.shape[1 if x.ndim == 4 else -1]
        mean = sum((NONE.apply(rows).double().sum(axes) for rows in slices_of(x, _PIECE)), torch.zeros(()).double())
        mean = mean / count
        centred = mean.view(-1, 1, 1) if x.ndim == 4 else mean.view(-1)
        squares = ((NONE.apply(rows).double() - centred).square().sum(axes) for rows in slices_of(x, _PIECE))
        std = (sum(squares, torch.zeros(()).double()) / count).sqrt()
        std = torch.where(std > _TINY * mean.abs().clamp(min=1.0), std, 1.0)
        return Normalisation(tuple(mean.tolist()), tuple(std.tolist()), _STANDARD)

    def undo(self, x: Tensor) -> Tensor:
        """The inverse of :meth:`apply`: a new tensor x · std + mean, in [0, 1] if it came from pixels."""
        if not self.mean:
            return _floats(x).clone()
        mean, std = self._shaped(_floats(x))
        return x * std + mean

    def _shaped(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and deviation as tensors that broadcast over the channels of ``x``."""
        mean, std = x.new_tensor(self.mean), x.new_tensor(self.std)
        if len(self.mean) == 1:
            return mean, std
        features = x.shape[1 if x.ndim == 4 else -1]
        if x.ndim not in (2, 3, 4) or features != len(self.mean) or (x.ndim < 4 and self.name in _NAMED):
            raise DataMismatch(
                f"normalisation {self.name} has {len(self.mean)} channels and does not fit inputs of shape "
                f"{tuple(x.shape)}; use one value (such as 0.5/0.5), none, or images (n, {len(self.mean)}, h, w)"
            )
        return (mean.view(-1, 1, 1), std.view(-1, 1, 1)) if x.ndim == 4 else (mean, std)


Normalise = Annotated[
    Normalisation | str | None,
    Doc("none, 0.5/0.5, imagenet …; default: the network's own, or the data's", read=Normalisation.of, none=False),
]
"""The option of verbs that load a network or train one."""


def _floats(x: Tensor) -> Tensor:
    if not x.is_floating_point():
        raise DataMismatch(f"inputs must be uint8 pixels, floats or int64, not {x.dtype}; convert them with x.float()")
    return x


def _numbers(part: str, whole: str) -> tuple[float, ...]:
    try:
        return tuple(float(item) for item in part.split(","))
    except ValueError:
        raise OptionError(f"normalisation {whole!r}: {part!r} is not a list of numbers such as 0.5,0.5,0.5") from None


def _text(mean: tuple[float, ...], std: tuple[float, ...]) -> str:
    return f"{','.join(map(repr, mean))}/{','.join(map(repr, std))}" if mean or std else "none"


NONE, HALF, IMAGENET, CIFAR10, CIFAR100, MNIST, FASHION_MNIST = (
    Normalisation(mean, std, name) for name, (mean, std) in _NAMED.items()
)
STANDARD = Normalisation(name=_STANDARD)
