"""Networks: build, read, write, walk, recognise, evaluate. Names are imported on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from weightsmith.networks.card import Card, card_of, weights_digest, with_card
    from weightsmith.networks.editing.fold import Folded, fold_batch_norm
    from weightsmith.networks.editing.grafting import Grafted
    from weightsmith.networks.evaluating import evaluate
    from weightsmith.networks.evaluation import Evaluation, scores
    from weightsmith.networks.files import load, read_card, save
    from weightsmith.networks.layers.walk import LayerWeights, Walk, walk
    from weightsmith.networks.models.activations import Activation
    from weightsmith.networks.models.architecture import Architecture, architecture_of
    from weightsmith.networks.models.building import build
    from weightsmith.networks.models.catalogue import recognise
    from weightsmith.networks.models.cnn import Cnn, cnn
    from weightsmith.networks.models.dropout import Dropout
    from weightsmith.networks.models.mlp import Mlp, mlp
    from weightsmith.networks.models.paper_resnet import PaperResnet, paper_resnet
    from weightsmith.networks.models.resnet import Resnet, resnet
    from weightsmith.networks.models.vgg import Vgg, vgg
    from weightsmith.networks.target_evaluation import LabelEvaluation, RegressionEvaluation
    from weightsmith.networks.weights import Weights, open_weights

_HOMES = {
    "card": "Card card_of weights_digest with_card",
    "editing.fold": "Folded fold_batch_norm",
    "editing.grafting": "Grafted",
    "evaluating": "evaluate",
    "evaluation": "Evaluation scores",
    "files": "load read_card save",
    "layers.walk": "LayerWeights Walk walk",
    "models.activations": "Activation",
    "models.architecture": "Architecture architecture_of",
    "models.building": "build",
    "models.catalogue": "recognise",
    "models.cnn": "Cnn cnn",
    "models.dropout": "Dropout",
    "models.mlp": "Mlp mlp",
    "models.paper_resnet": "PaperResnet paper_resnet",
    "models.resnet": "Resnet resnet",
    "models.vgg": "Vgg vgg",
    "target_evaluation": "LabelEvaluation RegressionEvaluation",
    "weights": "Weights open_weights",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "Activation", "Architecture", "Card", "Cnn", "Dropout", "Evaluation", "Folded", "Grafted", "LabelEvaluation",
    "LayerWeights", "Mlp", "PaperResnet", "RegressionEvaluation", "Resnet", "Vgg", "Walk", "Weights", "architecture_of",
    "build", "card_of", "cnn", "evaluate", "fold_batch_norm", "load", "mlp", "open_weights", "paper_resnet",
    "read_card", "recognise", "resnet", "save", "scores", "vgg", "walk", "weights_digest", "with_card",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__]
