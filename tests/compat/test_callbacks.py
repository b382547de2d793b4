"""Callbacks: the watch by hand, the hooks on a stand-in of each package, and the real packages where installed."""

from __future__ import annotations

import sys
import types
import warnings

import pytest
import torch
from torch import nn

from weightsmith.compat.callbacks import Watch, lightning_callback, trainer_callback
from weightsmith.core.errors import UsageError
from weightsmith.training.plan import TrainingWarning


def deep(activation: type[nn.Module], layers: int = 12) -> nn.Sequential:
    torch.manual_seed(0)
    blocks = [part for _ in range(layers) for part in (nn.Linear(16, 16), activation())]
    return nn.Sequential(*blocks, nn.Linear(16, 3))


X, Y = torch.linspace(-1, 1, 64 * 16).reshape(64, 16), torch.arange(64) % 3


def take_step(network: nn.Module) -> None:
    optimiser = torch.optim.SGD(network.parameters(), 0.01)
    nn.functional.cross_entropy(network(X), Y).backward()
    optimiser.step()


def watched(network: nn.Module, steps: int) -> Watch:
    watch = Watch()
    for step in range(steps):
        watch.begin(network, step, first=step % 5 == 0)
        take_step(network)
        watch.end()
    return watch


def test_steps_that_are_powers_of_two_or_first_of_an_epoch_are_measured():
    watch = watched(deep(nn.ReLU, 2), 12)
    assert watch.gradients.probes == (0, 1, 2, 4, 5, 8, 10)


def test_vanishing_gradients_are_told_and_healthy_ones_are_not():
    sick = watched(deep(nn.Sigmoid), 2)
    assert sick.gradients.health.value == "vanishing"
    with pytest.warns(TrainingWarning, match="vanishing"):
        sick.finish()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        watched(deep(nn.ReLU, 1), 2).finish()


def test_alpha_of_every_layer_is_kept_by_epoch():
    network, watch = deep(nn.ReLU, 1), Watch()
    logged = watch.epoch(network)
    assert set(watch.alphas[0]) == {"0"}  # the output layer has three units: too small
    assert logged == {"alpha": watch.alphas[0]["0"], "alpha/0": watch.alphas[0]["0"]}
    assert Watch(alpha=False).epoch(network) == {}
    with pytest.raises(UsageError, match="no step has been measured"):
        _ = watch.gradients


@pytest.fixture
def stand_ins(monkeypatch):
    lightning, transformers = types.ModuleType("lightning.pytorch"), types.ModuleType("transformers")
    lightning.Callback = transformers.TrainerCallback = type("Base", (), {})
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.pytorch", lightning)
    monkeypatch.setitem(sys.modules, "transformers", transformers)


def test_the_hooks_of_lightning(stand_ins):
    network, callback, logged = deep(nn.ReLU, 1), lightning_callback(), {}
    network.log = logged.__setitem__
    trainer = types.SimpleNamespace(global_step=0)
    for batch in range(3):
        callback.on_train_batch_start(trainer, network, None, batch)
        take_step(network)
        trainer.global_step += 1
        callback.on_train_batch_end(trainer, network, None, None, batch)
    callback.on_train_epoch_end(trainer, network)
    callback.on_train_end(trainer, network)
    assert callback.watch.gradients.probes == (0, 1, 2)
    assert logged["alpha"] == logged["alpha/0"]


def test_the_hooks_of_transformers(stand_ins):
    network, callback = deep(nn.ReLU, 1), trainer_callback()
    state = types.SimpleNamespace(global_step=0, epoch=1.0, log_history=[])
    callback.on_epoch_begin(None, state, None)
    for _ in range(4):
        callback.on_step_begin(None, state, None, model=network)
        take_step(network)
        state.global_step += 1
        callback.on_step_end(None, state, None, model=network)
    callback.on_epoch_end(None, state, None, model=network)
    callback.on_train_end(None, state, None)
    assert callback.watch.gradients.probes == (0, 1, 2)
    assert state.log_history[0]["step"] == 4
    assert state.log_history[0]["alpha"] == state.log_history[0]["alpha/0"]


def test_a_package_that_is_missing_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(UsageError, match="pip install transformers"):
        trainer_callback()


def test_lightning_itself_is_not_disturbed(tmp_path):
    pl = pytest.importorskip("lightning.pytorch", reason="Lightning is in the peers' environment only")

    class Module(pl.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = deep(nn.Sigmoid)

        def training_step(self, batch, _index):
            return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.01)

    def trained(callbacks) -> tuple[Module, object]:
        module = Module()
        loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(X, Y), batch_size=16)
        trainer = pl.Trainer(
            max_epochs=2, callbacks=callbacks, accelerator="cpu", logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=tmp_path,
        )  # fmt: skip
        trainer.fit(module, loader)
        return module, trainer

    callback = lightning_callback()
    with pytest.warns(TrainingWarning, match="vanishing"):
        module, trainer = trained([callback])
    plain, _ = trained([])
    assert all(torch.equal(a, b) for a, b in zip(module.parameters(), plain.parameters(), strict=True))
    assert callback.watch.gradients.probes == (0, 1, 2, 4)
    assert len(callback.watch.alphas) == 2
    assert float(trainer.logged_metrics["alpha"]) == pytest.approx(
        sum(callback.watch.alphas[-1].values()) / len(callback.watch.alphas[-1]), rel=1e-6
    )


def test_the_trainer_of_transformers_is_not_disturbed(tmp_path):
    transformers = pytest.importorskip("transformers", reason="transformers is not among our packages")
    pytest.importorskip("accelerate")

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.net = deep(nn.Sigmoid)

        def forward(self, x, labels):
            return {"loss": nn.functional.cross_entropy(self.net(x), labels)}

    def trained(callbacks) -> tuple[nn.Module, object]:
        model = Classifier()
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path), num_train_epochs=2, per_device_train_batch_size=16, report_to=[],
            save_strategy="no", use_cpu=True, disable_tqdm=True, optim="sgd", learning_rate=0.01, seed=0,
        )  # fmt: skip
        rows = [{"x": x, "labels": y} for x, y in zip(X, Y, strict=True)]
        trainer = transformers.Trainer(model=model, args=arguments, train_dataset=rows, callbacks=callbacks)
        trainer.train()
        return model, trainer

    callback = trainer_callback()
    with pytest.warns(TrainingWarning, match="vanishing"):
        model, trainer = trained([callback])
    plain, _ = trained([])
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), plain.parameters(), strict=True))
    assert callback.watch.gradients.probes == (0, 1, 2, 4)
    assert [row["step"] for row in trainer.state.log_history if "alpha" in row] == [4, 8]
