"""What Keras (torch backend, float64) computes in layers, initialisers, clipping, schedules and callbacks."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np

from benchmarks.peers.inputs import weights

__all__ = ["PACKAGES", "vectors"]

PACKAGES = ("keras", "numpy", "torch")

GRID = [step / 2 for step in range(-8, 9)]
STEPS = [0, 1, 5, 10, 11, 20, 50, 100]
FLAT = [1.0] * 12
# Steps of 3e-5 from 1 and of 4e-5 from 0.1: an absolute and a relative threshold of 1e-4 see them differently.
SLOW = [1.0 - 3e-5 * epoch for epoch in range(12)]
SMALL = [0.1 - 4e-5 * epoch for epoch in range(12)]
INITIALISERS = ("GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "LecunNormal", "LecunUniform")


def vectors() -> dict[str, Any]:
    """All of it, as JSON-ready values."""
    keras.backend.set_floatx("float64")
    return {
        "activations": _activations(),
        "batch_norm": _batch_norm(),
        "clipping": _clipping(),
        "dropout": _dropout(),
        "early_stopping": _early_stopping(),
        "initialisers": _initialisers(),
        "plateau": _plateau(),
        "schedules": _schedules(),
    }


def _list(tensor: Any) -> Any:
    return np.asarray(keras.ops.convert_to_numpy(tensor), dtype=np.float64).tolist()


def _activations() -> dict[str, Any]:
    x = np.array(GRID)
    names = ("elu", "leaky_relu", "relu", "selu", "sigmoid", "tanh")
    functions = {name: _list(getattr(keras.activations, name)(x)) for name in names}
    # The function's slope is 0.2, the layer's 0.3.
    return {**functions, "LeakyReLU_layer": _list(keras.layers.LeakyReLU()(x)), "x": GRID}


def _initialisers() -> dict[str, Any]:
    shapes = {"conv_3x3_64_128": (3, 3, 64, 128), "dense_784_300": (784, 300)}
    drawn: dict[str, Any] = {}
    for label, shape in shapes.items():
        for name in INITIALISERS:
            values = np.array(_list(getattr(keras.initializers, name)(seed=0)(shape)))
            drawn.setdefault(label, {"shape": list(shape)})[name] = _spread(values)
    dense = keras.layers.Dense(300)
    dense.build((None, 784))
    bias = float(np.abs(_list(dense.bias)).max())
    default = {"bias_largest": bias, "kernel_initializer": type(dense.kernel_initializer).__name__}
    return {**drawn, "dense_default": default}


def _spread(values: np.ndarray[Any, Any]) -> dict[str, float]:
    return {"largest": float(np.abs(values).max()), "std": float(values.std())}


def _batch_norm() -> dict[str, Any]:
    constant = [np.array([[3.0], [7.0]])] * 10
    varying = list(weights(10, 6, 1, salt=11) + 5)
    layer = keras.layers.BatchNormalization()
    frozen = keras.layers.BatchNormalization()
    frozen.trainable = False
    result = {
        "constant_batches": _moving(layer, constant),
        "epsilon": layer.epsilon,
        "inference_at_1": _list(layer(np.array([[1.0]]), training=False))[0][0],
        "momentum": layer.momentum,
    }
    return {
        **result,
        "frozen": _moving(frozen, constant),
        "varying_batches": {
            "batches": [batch[:, 0].tolist() for batch in varying],
            **_moving(keras.layers.BatchNormalization(), varying),
        },
    }


def _moving(layer: Any, batches: list[Any]) -> dict[str, Any]:
    means, variances = [], []
    for batch in batches:
        layer(batch, training=True)
        means.append(_list(layer.moving_mean)[0])
        variances.append(_list(layer.moving_variance)[0])
    return {"moving_mean": means, "moving_variance": variances}


def _dropout() -> dict[str, Any]:
    ones = np.ones(1000)
    plain, alpha = keras.layers.Dropout(0.2, seed=0), keras.layers.AlphaDropout(0.2, seed=0)
    return {
        "alpha_dropout_of_ones": sorted(set(_list(alpha(ones, training=True)))),
        "alpha_dropout_of_zeros": sorted(set(_list(alpha(np.zeros(1000), training=True)))),
        "dropout_of_ones": sorted(set(_list(plain(ones, training=True)))),
        "dropout_of_ones_inference": sorted(set(_list(plain(ones, training=False)))),
        "rate": 0.2,
    }


def _clipping() -> dict[str, Any]:
    """The update of SGD with rate 1 from zero is the clipped gradient with its sign turned."""
    gradients = [[0.9, 100.0], [3.0]]
    result: dict[str, Any] = {"gradients": gradients, "limit": 1.0}
    for kind in ("clipnorm", "clipvalue", "global_clipnorm"):
        optimiser = keras.optimizers.SGD(1.0, **{kind: 1.0})
        variables = [keras.Variable(np.zeros(len(gradient))) for gradient in gradients]
        tensors = [keras.ops.convert_to_tensor(np.array(gradient)) for gradient in gradients]
        optimiser.apply_gradients(list(zip(tensors, variables, strict=True)))
        result[kind] = [(-np.array(_list(variable))).tolist() for variable in variables]
    return result


def _model() -> Any:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss="mse")
    return model


def _plateau() -> dict[str, Any]:
    def epochs_of_cuts(losses: list[float], **options: Any) -> list[int]:
        model, callback = _model(), keras.callbacks.ReduceLROnPlateau(**options)
        callback.set_model(model)
        callback.on_train_begin()
        cuts = []
        for epoch, loss in enumerate(losses):
            before = float(model.optimizer.learning_rate)
            callback.on_epoch_end(epoch, {"val_loss": loss})
            if float(model.optimizer.learning_rate) < before:
                cuts.append(epoch + 1)
        return cuts

    return {
        "cuts_after_epoch": {
            "flat_patience_2": epochs_of_cuts(FLAT, patience=2),
            "flat_patience_2_cooldown_2": epochs_of_cuts(FLAT, patience=2, cooldown=2),
            "slow_patience_2": epochs_of_cuts(SLOW, patience=2),
            "small_patience_1": epochs_of_cuts(SMALL, patience=1),
        },
        "flat": FLAT,
        "slow": SLOW,
        "small": SMALL,
    }


def _early_stopping() -> dict[str, Any]:
    losses = [1.0, 0.8, 0.9, 0.7, 0.75, 0.74, 0.73, 0.72, 0.71, 0.705, 0.6, 0.5]
    stops: dict[str, int | None] = {}
    for patience in (0, 1, 2, 5, 6):
        model = _model()
        callback = keras.callbacks.EarlyStopping(patience=patience)
        callback.set_model(model)
        callback.on_train_begin()
        stops[f"patience_{patience}"] = None
        for epoch, loss in enumerate(losses):
            callback.on_epoch_end(epoch, {"val_loss": loss})
            if model.stop_training:
                stops[f"patience_{patience}"] = epoch + 1
                break
    return {"losses": losses, "stops_after_epoch": stops}


def _schedules() -> dict[str, Any]:
    kinds = keras.optimizers.schedules
    made = {
        "cosine_100": kinds.CosineDecay(0.1, 100),
        "cosine_100_after_warmup_10": kinds.CosineDecay(0.0, 100, warmup_target=0.1, warmup_steps=10),
        "exponential_0.1_per_20": kinds.ExponentialDecay(0.1, decay_steps=20, decay_rate=0.1),
        "inverse_time_20": kinds.InverseTimeDecay(0.1, decay_steps=20, decay_rate=1.0),
        "piecewise_10_20": kinds.PiecewiseConstantDecay([10, 20], [0.1, 0.01, 0.001]),
    }
    rates = {name: [float(schedule(step)) for step in STEPS] for name, schedule in made.items()}
    return {"rates": rates, "steps": STEPS}
