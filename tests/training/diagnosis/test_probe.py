"""The probe against eqs. 7 and 8 written out, against image-by-image gradients, and on networks of all sorts."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from weightsmith.core.errors import UsageError
from weightsmith.networks.models.dropout import Dropout
from weightsmith.training.diagnosis.gradients import Health
from weightsmith.training.diagnosis.probe import Probe
from weightsmith.training.losses import SquaredError


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def filled(network):
    """The network in double precision with weights from a generator of its own."""
    generator = seeded(1)
    network = network.double()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.normal_(0, 0.5, generator=generator)
    return network


def batch(*shape, classes=3):
    x = torch.randn(*shape, generator=seeded(2), dtype=torch.float64)
    return x, torch.arange(shape[0]) % classes


def probed(network, x, y, *, rate=0.1, loss=F.cross_entropy, number=0, probe=None):
    probe = probe or Probe(network)
    network.zero_grad()
    with probe.step(number):
        loss(network(x), y).backward()
        with torch.no_grad():
            for parameter in network.parameters():
                if parameter.grad is not None:
                    parameter.sub_(rate * parameter.grad)
    return probe


def by_name(probe):
    return {layer.name: layer for layer in probe.diagnosis().layers}


def one_image_at_a_time(network, layers, x, y):
    """The mean over images of ‖∂loss_image/∂n‖, each image alone in its batch: slow, and without the probe."""
    sums, outputs, names = dict.fromkeys(layers, 0.0), {}, {network.get_submodule(name): name for name in layers}

    def keep(module, inputs, output):
        outputs.setdefault(names[module], []).append(output)

    handles = [module.register_forward_hook(keep) for module in names]
    for image in range(len(x)):
        outputs.clear()
        loss = F.cross_entropy(network(x[image : image + 1]), y[image : image + 1])
        for name in layers:
            gradients = torch.autograd.grad(loss, outputs[name], retain_graph=True)
            sums[name] += float(torch.cat([g.flatten() for g in gradients]).norm())
    for handle in handles:
        handle.remove()
    return {name: total / len(x) for name, total in sums.items()}


def test_sensitivities_are_those_of_equations_7_and_8():
    network = filled(nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 3)))
    x, y = batch(7, 4)
    n1 = x @ network[0].weight.T + network[0].bias
    a1 = torch.sigmoid(n1)
    a2 = torch.sigmoid(a1 @ network[2].weight.T + network[2].bias)
    s2 = -2 * (F.one_hot(y, 3) - a2) * a2 * (1 - a2)
    s1 = (s2 @ network[2].weight) * a1 * (1 - a1)
    expected = [float(s.detach().norm(dim=1).mean()) for s in (s1, s2)]
    found = probed(network, x, y, loss=SquaredError("sigmoid")).diagnosis()
    assert [layer.sensitivity[0] for layer in found.layers] == pytest.approx(expected, rel=1e-12)


class Branches(nn.Module):
    """Convolutions on two paths, functions for modules, a shared layer, names in another order than calls."""

    def __init__(self, inplace=False):
        super().__init__()
        self.head = nn.Linear(4, 3)
        self.left = nn.Conv2d(1, 2, 3)
        self.right = nn.Conv2d(1, 2, 3, padding=1)
        self.up = nn.ConvTranspose2d(2, 2, 3)
        self.shared = nn.Linear(4, 4)
        self.inplace = inplace

    def forward(self, x):
        left = self.up(F.relu(self.left(x), inplace=self.inplace))
        both = torch.cat([left, self.right(x)], 1).mean((2, 3))
        return self.head(torch.tanh(self.shared(torch.tanh(self.shared(both)))))


def test_branches_functions_and_shared_layers_match_single_images():
    network = filled(Branches())
    x, y = batch(5, 1, 6, 6)
    names = ["left", "up", "right", "shared", "head"]
    expected = one_image_at_a_time(network, names, x, y)
    layers = by_name(probed(network, x, y, rate=0.0))
    assert list(layers) == names
    for name in names:
        assert layers[name].sensitivity[0] == pytest.approx(expected[name], rel=1e-9)
    assert "used 2 times" in layers["shared"].reason
    assert "used" not in layers["up"].reason


def test_an_activation_in_place_changes_nothing():
    x, y = batch(5, 1, 6, 6)
    plain, inplace = (by_name(probed(filled(Branches(inplace)), x, y)) for inplace in (False, True))
    for name, layer in plain.items():
        assert layer.sensitivity == pytest.approx(inplace[name].sensitivity, rel=1e-12)


@pytest.mark.parametrize("arrange", ["windows folded into the batch", "steps before images"])
def test_rows_are_distinguished_by_image(arrange):
    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(2, 6), nn.Linear(6, 3)

        def forward(self, x):
            if arrange.startswith("windows"):
                hidden = self.inner(x.reshape(-1, 2)).reshape(len(x), 4, 6)
            else:
                hidden = self.inner(x.transpose(0, 1)).transpose(0, 1)
            return self.outer(torch.tanh(hidden).mean(1))

    network = filled(Windows())
    x, y = batch(5, 4, 2)
    expected = one_image_at_a_time(network, ["inner", "outer"], x, y)
    layers = by_name(probed(network, x, y))
    assert layers["inner"].sensitivity[0] == pytest.approx(expected["inner"], rel=1e-9)


def test_rows_that_belong_to_no_image_are_shared_out_evenly():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(4, 4), nn.Linear(4, 3)

        def forward(self, x):
            return self.outer(x + self.inner(x[:2]).mean(0))

    network, (x, y) = filled(Mixed()), batch(5, 4)
    inner = network.inner(x[:2])
    (gradient,) = torch.autograd.grad(F.cross_entropy(network.outer(x + inner.mean(0)), y), inner)
    layers = by_name(probed(network, x, y))
    assert layers["inner"].sensitivity[0] == pytest.approx(float(gradient.norm()) * 5**0.5, rel=1e-9)


def test_the_update_is_relative_to_weights_and_bias_together():
    network = filled(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)))
    x, y = batch(7, 4)
    F.cross_entropy(network(x), y).backward()
    theta = torch.cat([network[0].weight.flatten(), network[0].bias]).detach()
    step = 0.3 * torch.cat([network[0].weight.grad.flatten(), network[0].bias.grad])
    expected = float(step.norm() / theta.norm())
    assert by_name(probed(network, x, y, rate=0.3))["0"].update[0] == pytest.approx(expected, rel=1e-12)


def test_weights_that_are_all_zero_have_no_relative_update():
    network = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)).double()
    nn.init.zeros_(network[2].weight)
    nn.init.zeros_(network[2].bias)
    layers = by_name(probed(network, *batch(7, 4)))
    assert layers["2"].update == (None,)
    assert layers["2"].health is Health.HEALTHY


def test_nothing_is_changed_and_nothing_left_behind():
    def fresh():
        return filled(nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), Dropout(0.5), nn.Linear(5, 3)))

    x, y = batch(7, 4)
    results = []
    for watched in (False, True):
        network = fresh()
        network[1].eval()
        network[3].generator = seeded(3)
        before = torch.random.get_rng_state()
        probe = Probe(network)
        if watched:
            with probe.step(0):
                F.cross_entropy(network(x), y).backward()
        else:
            F.cross_entropy(network(x), y).backward()
        assert torch.equal(torch.random.get_rng_state(), before)
        assert [module.training for module in network] == [True, False, True, True, True]
        for module in network.modules():
            hooks = (module._forward_hooks, module._forward_pre_hooks, module._backward_hooks)
            assert not any(hooks)
        assert not any(parameter._backward_hooks for parameter in network.parameters())
        results.append([*(p.grad for p in network.parameters()), *network.state_dict().values()])
    for plain, measured in zip(*results, strict=True):
        assert torch.equal(plain, measured)


def test_a_backward_pass_after_the_block_is_not_taken_in():
    network, (x, y) = filled(nn.Sequential(nn.Linear(4, 3))), batch(5, 4)
    probe = Probe(network)
    with probe.step(0):
        loss = F.cross_entropy(network(x), y)
    loss.backward()
    assert by_name(probe)["0"].sensitivity == (None,)


def test_a_resumed_probe_gives_the_same_bytes():
    def network():
        return filled(nn.Sequential(nn.Linear(4, 5), nn.Sigmoid(), nn.Linear(5, 3)))

    x, y = batch(7, 4)
    whole, first = network(), network()
    straight = probed(whole, x, y)
    straight = probed(whole, x, y, number=10, probe=straight)
    state = json.loads(json.dumps(probed(first, x, y).to_state()))
    resumed = probed(first, x, y, number=10, probe=Probe.from_state(first, state))
    assert resumed.probes == (0, 10)
    assert resumed.diagnosis().to_json() == straight.diagnosis().to_json()
    assert resumed.to_state() == straight.to_state()


def test_a_state_may_be_taken_in_parts():
    network, (x, y) = filled(nn.Sequential(nn.Linear(4, 3))), batch(5, 4)
    probe = probed(network, x, y)
    parts = [probe.to_state()]
    for number in (10, 20, 30):
        probed(network, x, y, number=number, probe=probe)
        if number != 10:
            parts.append(probe.to_state(since=sum(len(part["probes"]) for part in parts)))
    assert [part["probes"] for part in parts] == [[0], [10, 20], [30]]
    assert Probe.from_state(network, *parts).to_state() == probe.to_state()


def test_the_state_of_another_network_is_refused():
    state = probed(filled(nn.Sequential(nn.Linear(4, 3))), *batch(5, 4)).to_state()
    with pytest.raises(UsageError, match="layer '1'"):
        Probe.from_state(nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3)), state)


def test_a_step_that_fails_leaves_no_reading_and_no_hooks():
    network, (x, y) = filled(nn.Sequential(nn.Linear(4, 3))), batch(5, 4)
    probe = Probe(network)
    with pytest.raises(KeyboardInterrupt), probe.step(0):
        F.cross_entropy(network(x), y).backward()
        raise KeyboardInterrupt
    assert probe.probes == ()
    assert not network[0]._forward_hooks
    with probe.step(0):
        pass
    with pytest.raises(UsageError, match="no step has been measured"):
        probe.diagnosis()


@pytest.mark.parametrize("backward", [True, False])
def test_a_loop_that_gives_up_on_a_loss_that_is_not_finite_is_seen(backward):
    network, (x, y) = filled(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))), batch(5, 4)
    with torch.no_grad():
        network[2].weight[0, 0] = torch.nan
    probe = Probe(network)
    with pytest.raises(ArithmeticError), probe.step(4):
        loss = F.cross_entropy(network(x), y)
        if backward:
            loss.backward()
        raise ArithmeticError
    found = probe.diagnosis()
    assert found.probes == (4,)
    assert found.health is Health.NOT_FINITE
    assert "2: its output is NaN or infinite at step 4" in found.sentence
    assert all(layer.update == (None,) for layer in found.layers)
    assert "NaN" not in found.to_json().replace("is NaN", "")


def test_large_gradients_do_not_overflow():
    network = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3))
    x, y = batch(5, 4)
    with torch.no_grad():
        network[1].weight.mul_(1e25)
    assert by_name(probed(network, x.float(), y, rate=0.0))["0"].sensitivity[0] > 1e20


def test_layers_that_get_no_gradient_are_called_dead_with_the_reason():
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.forgotten, self.cut = nn.Linear(4, 3), nn.Linear(4, 3), nn.Linear(4, 3)

        def forward(self, x):
            return self.used(x) + self.cut(x).detach()

    layers = by_name(probed(filled(Odd()), *batch(5, 4)))
    assert layers["used"].health is Health.HEALTHY
    for name in ("forgotten", "cut"):
        assert layers[name].health is Health.DEAD
        assert "it never received a gradient" in layers[name].reason


def test_frozen_layers_are_listed_and_not_judged():
    network, (x, y) = filled(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 5), nn.Linear(5, 3))), batch(5, 4)
    network[0].requires_grad_(False)
    network[2].requires_grad_(False)
    network[3].bias.requires_grad_(False)
    size = float(network[3].weight.detach().norm())
    layers = by_name(probed(network, x, y, rate=0.1))
    assert [layer.health.value for layer in layers.values()] == ["frozen", "frozen", "healthy"]
    assert layers["0"].update == layers["2"].update == (None,)
    assert layers["3"].update[0] == pytest.approx(0.1 * float(network[3].weight.grad.norm()) / size, rel=1e-9)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.recurrent = nn.LSTM(4, 4, batch_first=True)
        self.output = nn.Linear(4, 3)

    def forward(self, x):
        mixed, _ = self.attention(x, x, x)
        return self.output(self.recurrent(mixed)[0][:, -1])


def test_attention_and_recurrent_layers_are_seen_by_their_outputs():
    network, (x, y) = filled(Attention()), batch(5, 4, 4)
    layers = by_name(probed(network, x, y))
    assert list(layers) == ["attention", "recurrent", "output"]
    mixed = network.attention(x, x, x)[0].detach().requires_grad_()
    states = network.recurrent(mixed)[0]
    loss = F.cross_entropy(network.output(states[:, -1]), y)
    for name, gradient in zip(layers, torch.autograd.grad(loss, [mixed, states]), strict=False):
        expected = float(gradient.flatten(1).norm(dim=1).sum())
        assert layers[name].sensitivity[0] == pytest.approx(expected, rel=0.5)  # the weights have moved a step since
        assert layers[name].health is Health.HEALTHY
    with torch.no_grad():
        network.output.weight.zero_()
    layers = by_name(probed(network, x, y))
    assert layers["recurrent"].health is Health.DEAD


class Hidden(nn.Module):
    """A layer of one's own: nothing says which of its tensors is the net input."""

    def __init__(self):
        super().__init__()
        self.matrix = nn.Parameter(torch.ones(4, 4))

    def forward(self, x):
        return torch.tanh(x @ self.matrix)


def test_a_layer_of_ones_own_is_not_measured():
    layers = by_name(probed(filled(nn.Sequential(Hidden(), nn.Linear(4, 3))), *batch(5, 4)))
    assert layers["0"].sensitivity == (None,)
    assert layers["0"].update[0] > 0
    assert layers["0"].health is Health.NOT_MEASURED
    assert "was not measured" in layers["0"].reason


def test_a_state_with_the_projection_of_an_attention_layer_apart_is_taken():
    network, (x, y) = filled(Attention()), batch(5, 4, 4)
    state = probed(network, x, y).to_state()
    older = {**state, "order": ["attention", "attention.out_proj", "recurrent", "output"]}
    older["readings"] = {**state["readings"], "attention.out_proj": state["readings"]["attention"]}
    assert Probe.from_state(network, older).to_state() == state


@pytest.mark.parametrize("functional", [True, False])
def test_idle_units_and_flat_activations_are_seen_whether_modules_or_functions(functional):
    class Two(nn.Module):
        def __init__(self):
            super().__init__()
            self.convolution, self.dense, self.output = nn.Conv2d(1, 4, 3), nn.Linear(4, 4), nn.Linear(4, 3)
            self.relu, self.tanh = (F.relu, torch.tanh) if functional else (nn.ReLU(), nn.Tanh())

        def forward(self, x):
            return self.output(self.tanh(self.dense(self.relu(self.convolution(x)).mean((2, 3)))))

    network, (x, y) = filled(Two()), batch(5, 1, 6, 6)
    with torch.no_grad():
        network.convolution.bias[:] = torch.tensor([1.0, -99.0, 1.0, -99.0])
        network.dense.weight.mul_(0.1)
        network.dense.bias[:] = torch.tensor([5.0, 5.0, -5.0, 0.0])
    layers = by_name(probed(network, x, y, rate=0.0))
    assert layers["convolution"].dead == 0.5
    assert layers["dense"].saturated == 0.75
    assert layers["dense"].health is Health.SATURATED
    assert layers["output"].dead == 0.0


def test_units_whose_weights_are_zero_are_not_counted_as_dead():
    network, (x, y) = filled(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))), batch(5, 4)
    with torch.no_grad():
        network[0].weight[:4] = 0.0
        network[0].bias[:4] = -1.0
    assert by_name(probed(network, x, y))["0"].dead == 0.0


def test_a_parametrised_layer_is_one_layer():
    network = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.LayerNorm([5]), nn.Linear(5, 3))
    layers = by_name(probed(network.double(), *batch(5, 4)))
    assert list(layers) == ["0", "2"]
    assert layers["0"].update[0] > 0


def test_gradient_checkpointing_counts_each_layer_once():
    class Recomputed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = nn.Linear(4, 5), nn.Linear(5, 3)

        def forward(self, x):
            return self.outer(checkpoint(lambda z: torch.tanh(self.inner(z)), x, use_reentrant=False))

    network, (x, y) = filled(Recomputed()), batch(5, 4)
    expected = one_image_at_a_time(network, ["inner"], x, y)["inner"]
    layers = by_name(probed(network, x, y))
    assert layers["inner"].sensitivity[0] == pytest.approx(expected, rel=1e-9)
    assert "used" not in layers["inner"].reason


def test_two_passes_count_all_their_images():
    """Two halves of a batch, each with its share of the mean loss, give what the whole batch gives."""
    network, (x, y) = filled(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3))), batch(6, 4)
    whole = by_name(probed(network, x, y, rate=0.0))
    halves = Probe(network)
    with halves.step(0):
        for part in (slice(0, 2), slice(2, 6)):
            (F.cross_entropy(network(x[part]), y[part], reduction="sum") / 6).backward()
    for name, layer in by_name(halves).items():
        assert layer.sensitivity == pytest.approx(whole[name].sensitivity, rel=1e-9)


def test_a_single_layer_is_a_network_and_one_without_weights_is_not():
    assert list(by_name(probed(nn.Linear(4, 3).double(), *batch(5, 4)))) == ["Linear"]
    with pytest.raises(UsageError, match="no layer with weights"):
        Probe(nn.Sequential(nn.Flatten(), nn.ReLU()))
