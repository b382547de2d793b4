"""A trained network that several tests reduce."""

from __future__ import annotations

import pytest
from tests.reducing.by_hand import EPOCHS

import weightsmith as ws
from weightsmith.data.tensors import Data
from weightsmith.training.run import TrainRun


@pytest.fixture(scope="session")
def digits() -> Data:
    """Real digits that come with scikit-learn, divided into training and test rows."""
    return ws.data.load("digits")


@pytest.fixture(scope="session")
def trained(digits: Data) -> TrainRun:
    """A network of 40 sigmoid units, with the weights of some epochs kept."""
    return ws.train("mlp:40,activation=sigmoid", digits, optimiser="adam", schedule=0.01, epochs=8, keep=(0, 2), seed=1)


@pytest.fixture(scope="session")
def plain(digits: Data) -> TrainRun:
    """Plain descent: nothing is remembered from step to step but the weights."""
    return ws.train("mlp:12", digits, optimiser="sgd", schedule="cosine:0.2", epochs=EPOCHS, seed=2, keep=(0, 1, 3))
