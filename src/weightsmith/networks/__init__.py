"""Networks: build, read, write, walk, recognise, evaluate."""

from weightsmith.networks.activations import Activation
from weightsmith.networks.architecture import Architecture, architecture_of
from weightsmith.networks.building import build
from weightsmith.networks.card import Card, card_of, weights_digest, with_card
from weightsmith.networks.catalogue import recognise
from weightsmith.networks.dropout import Dropout
from weightsmith.networks.evaluation import Evaluation, evaluate, scores
from weightsmith.networks.files import load, read_card, save
from weightsmith.networks.fold import Folded, fold_batch_norm
from weightsmith.networks.grafted import Grafted
from weightsmith.networks.layers import LayerWeights, Walk, walk
from weightsmith.networks.mlp import Mlp, mlp
from weightsmith.networks.paper_resnet import PaperResnet, paper_resnet
from weightsmith.networks.resnet import Resnet, resnet
from weightsmith.networks.vgg import Vgg, vgg
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
