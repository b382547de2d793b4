"""Files as Keras itself writes them, for the tests of our reader: ``python -m benchmarks.peers.keras_files``.

Every weight is filled from a formula, so the tests know what must come out: the k-th weight of the model, in Keras'
own order and layout, holds k + i/4096 at flat position i.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

__all__ = ["main"]

FOLDER = Path(__file__).parents[2] / "tests" / "reference" / "keras_files"


def main() -> None:
    """Write one convolutional and one recurrent model, each in the forms Keras has."""
    os.environ["KERAS_BACKEND"] = "torch"
    import keras

    FOLDER.mkdir(exist_ok=True)
    for name, model in (("images", _images(keras)), ("words", _words(keras))):
        _fill(model)
        model.save(FOLDER / f"{name}.keras")
        model.save_weights(FOLDER / f"{name}.weights.h5")
    model.save(FOLDER / f"{name}.h5")
    (FOLDER / "VERSION").write_text(f"keras {keras.__version__}\n")


def _images(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((6, 6, 3)),
            layers.Conv2D(4, 3, name="conv"),
            layers.BatchNormalization(name="norm"),
            layers.DepthwiseConv2D(3, name="depthwise"),
            layers.Conv2DTranspose(5, 2, name="up"),
            layers.Flatten(name="flatten"),
            layers.Dense(2, name="dense"),
        ]
    )


def _words(keras: Any) -> Any:
    layers = keras.layers
    return keras.Sequential(
        [
            keras.Input((7,)),
            layers.Embedding(11, 5, name="words"),
            layers.LSTM(6, name="lstm", return_sequences=True),
            layers.GRU(3, name="gru"),
            layers.Dense(2, name="dense"),
        ]
    )


def _fill(model: Any) -> None:
    import numpy as np

    weights = [
        k + np.arange(w.size, dtype=np.float32).reshape(w.shape) / 4096 for k, w in enumerate(model.get_weights())
    ]
    model.set_weights(weights)


if __name__ == "__main__":
    main()
