"""Presets: named combinations of settings.

``spike-ready`` prepares a network for conversion into a spiking one (seed 000): a spiking neuron has neither bias nor
batch norm, its rate computes a ReLU, average pooling preserves rates but maximum pooling does not, and signed Bernoulli
spikes need inputs in [−1, 1], to which the normalisation 0.5/0.5 maps pixels. The L4-balance penalty makes the L4 norms
of the first layer's units equal, so that the conversion need not adjust them.

>>> ready = spike_ready("mlp:300,100,activation=elu")
>>> str(ready.architecture), str(ready.normalisation), str(ready.penalties[0])
('mlp:300,100,bias=false', '0.5/0.5', 'l4-balance:1.0')
>>> ready.changes
('bias=true became false', 'activation=elu became relu')

As one line of Python: ``train(ready.architecture, data, normalise=ready.normalisation, penalties=ready.penalties)``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from weightsmith.core.errors import UnknownName, UsageError
from weightsmith.core.records import Record
from weightsmith.core.text import quote
from weightsmith.data.normalise import HALF, Normalisation
from weightsmith.networks.models.architecture import Architecture
from weightsmith.networks.models.cnn import Cnn
from weightsmith.networks.models.factories import is_factory
from weightsmith.networks.models.mlp import Mlp
from weightsmith.networks.models.paper_resnet import PaperResnet
from weightsmith.networks.models.vgg import Vgg
from weightsmith.training.penalties import L4Balance, Penalty

__all__ = ["PRESETS", "Preset", "preset", "spike_ready"]

_STRENGTH = 1.0

# The parameter values that convert without loss.
_CONVERTIBLE: Mapping[type[Architecture], Mapping[str, object]] = {
    Mlp: {"bias": False, "batch_norm": None, "input_norm": False, "activation": "relu"},
    Vgg: {"bias": False, "batch_norm": False, "pool": "avg", "activation": "relu"},
    Cnn: {"bias": False, "batch_norm": False, "pool": "avg", "activation": "relu"},
    PaperResnet: {"activation": "relu"},
}


@dataclasses.dataclass(frozen=True, eq=False)
class Preset(Record):
    """The adapted architecture and its training settings; ``changes`` lists the parameters changed."""

    architecture: Architecture
    normalisation: Normalisation
    penalties: tuple[Penalty, ...]
    changes: tuple[str, ...] = ()


def spike_ready(network: Architecture | str, *, strength: float = _STRENGTH) -> Preset:
    """``network`` without bias and batch norm, with average pooling and ReLU, for inputs in [−1, 1].

    ``strength`` is that of the L4-balance penalty. Architectures that need batch norm or bias are refused.
    """
    if isinstance(network, str) and is_factory(network):
        raise UsageError(
            f"{network} is code of your own, which a preset cannot rebuild; use mlp, cnn, vgg or paper-resnet"
        )
    architecture = Architecture.parse(network) if isinstance(network, str) else network
    if type(architecture) not in _CONVERTIBLE:
        known = ", ".join(kind.name for kind in _CONVERTIBLE)
        raise UsageError(f"{architecture.name} cannot be built without batch norm or bias; spike-ready takes {known}")
    wanted = dict(_CONVERTIBLE[type(architecture)])
    if isinstance(architecture, Mlp) and architecture.dropout_kind == "alpha":
        wanted["dropout_kind"] = None  # alpha dropout is made for SELU's negative limit, which ReLU lacks
    asked = {name: getattr(architecture, name) for name in wanted}
    changes = tuple(
        f"{name}={quote(asked[name])} became {quote(wanted[name])}" for name in wanted if asked[name] != wanted[name]
    )
    made = dataclasses.replace(architecture, **wanted)  # type: ignore[arg-type]  # names are those of the member
    return Preset(made, HALF, (L4Balance(strength),), changes)


PRESETS = {"spike-ready": spike_ready}


def preset(name: str, network: Architecture | str) -> Preset:
    """The preset called ``name`` for ``network``, as ``--preset`` takes it."""
    if name not in PRESETS:
        raise UnknownName("preset", name, PRESETS)
    return PRESETS[name](network)
