"""Networks: build, read, write, walk, recognise, evaluate."""

from weightsmith.networks.card import Card, card_of, weights_digest, with_card
from weightsmith.networks.editing.fold import Folded, fold_batch_norm
from weightsmith.networks.editing.grafting import Grafted
from weightsmith.networks.evaluation import Evaluation, evaluate, scores
from weightsmith.networks.files import load, read_card, save
from weightsmith.networks.layers.walk import LayerWeights, Walk, walk
from weightsmith.networks.models.activations import Activation
from weightsmith.networks.models.architecture import Architecture, architecture_of
from weightsmith.networks.models.building import build
from weightsmith.networks.models.catalogue import recognise
from weightsmith.networks.models.dropout import Dropout
from weightsmith.networks.models.mlp import Mlp, mlp
from weightsmith.networks.models.paper_resnet import PaperResnet, paper_resnet
from weightsmith.networks.models.resnet import Resnet, resnet
from weightsmith.networks.models.vgg import Vgg, vgg
from weightsmith.networks.weights import Weights, open_weights

__all__ = [
    "Activation",
    "Architecture",
    "Card",
    "Dropout",
    "Evaluation",
    "Folded",
    "Grafted",
    "LayerWeights",
    "Mlp",
    "PaperResnet",
    "Resnet",
    "Vgg",
    "Walk",
    "Weights",
    "architecture_of",
    "build",
    "card_of",
    "evaluate",
    "fold_batch_norm",
    "load",
    "mlp",
    "open_weights",
    "paper_resnet",
    "read_card",
    "recognise",
    "resnet",
    "save",
    "scores",
    "vgg",
    "walk",
    "weights_digest",
    "with_card",
]
