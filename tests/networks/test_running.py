"""A module runs as its author wrote it: memory formats are tried before they are used, failures name their layer."""

import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import DataMismatch
from weightsmith.networks.card import Card, with_card
from weightsmith.networks.running import memory_format_of, outputs_of, same_answers, undisturbed

IMAGES = torch.randn(6, 3, 8, 8, generator=torch.Generator().manual_seed(0))


class LeNet(nn.Module):
    """As tutorials write it: ``view`` behind a convolution."""

    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(3, 4, 3), nn.Conv2d(4, 6, 3)
        self.fc1, self.fc2 = nn.Linear(6 * 4 * 4, 12), nn.Linear(12, 3)

    def forward(self, x):
        x = torch.relu(self.conv2(torch.relu(self.conv1(x))))
        x = x.view(x.size(0), -1)
        return self.fc2(torch.relu(self.fc1(x)))


class Strided(nn.Module):
    """Gives another answer, without an error, if its images lie otherwise in memory."""

    def forward(self, x):
        return x.as_strided((len(x), 3), (x.stride(0), 1))


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 2, 8)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.conv(x).flatten(1) + torch.rand(())


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        (nn.Sequential(nn.Conv2d(3, 2, 8), nn.Flatten()), torch.channels_last),
        (LeNet(), torch.contiguous_format),
        (Strided(), torch.contiguous_format),
        (Counting(), torch.channels_last),  # random: there is nothing to compare
    ],
)
def test_channels_come_last_only_where_the_answer_is_the_same(network, expected):
    assert memory_format_of(network.eval(), IMAGES) == expected


def test_a_trial_leaves_buffers_random_state_and_inputs_alone():
    network, before, kept = Counting().eval(), torch.get_rng_state(), IMAGES.clone()
    memory_format_of(nn.Sequential(nn.ReLU(inplace=True), network), IMAGES)
    assert network.calls == 0
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(IMAGES, kept)


def test_answers_are_the_same_up_to_rounding():
    values = torch.tensor([[1.0, 100.0]])
    assert same_answers(values, values + 1e-3)
    assert not same_answers(values, values + 1)
    assert same_answers(torch.tensor([torch.nan, 1.0]), torch.tensor([torch.nan, 1.0]))
    assert not same_answers(torch.tensor([torch.nan, 1.0]), torch.tensor([1.0, 1.0]))
    assert not same_answers((values,), (values,))


def test_a_failure_names_the_layer_and_leaves_no_hook_behind():
    network = nn.Sequential(nn.Flatten(), nn.Sequential(nn.Linear(192, 4), nn.Linear(5, 2))).eval()
    with pytest.raises(DataMismatch, match=r"shape \(3, 8, 8\) \(1\.1 \(Linear\): mat1 and mat2"):
        outputs_of(network, IMAGES)
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        ((3, 12, 12), r"it takes \(3, 12, 12\) \(images in a folder: folder:PATH,size=12\)$"),
        ((3, 6, 12), r"it takes \(3, 6, 12\) \(images in a folder: folder:PATH,size=\[6,12\]\)$"),
        ((1, 12, 12), r"it takes \(1, 12, 12\)$"),
        ((432,), r"it takes \(432,\)$"),
        ((3, 8, 8), "give rows of the shape that it takes$"),  # its card is wrong
        ((), "give rows of the shape that it takes$"),
    ],
)
def test_a_failure_says_which_shape_the_network_takes(stated, message):
    network = with_card(nn.Sequential(nn.Flatten(), nn.Linear(432, 2)), Card(input_shape=stated)).eval()
    with pytest.raises(DataMismatch, match=message):
        outputs_of(network, IMAGES)


@pytest.mark.parametrize("kind", [AttributeError, KeyError, ZeroDivisionError, AssertionError])
def test_whatever_a_module_raises_is_a_refusal(kind):
    class Raising(nn.Module):
        def forward(self, x):
            raise kind

    with pytest.raises(DataMismatch, match=r"the network \(Raising\)"):
        outputs_of(Raising(), IMAGES)


def test_buffers_come_back_after_an_error():
    network = Counting()
    with pytest.raises(ZeroDivisionError), undisturbed(network):
        network.calls += 1
        raise ZeroDivisionError
    assert network.calls == 0


@pytest.fixture(scope="module")
def data():
    labels = torch.arange(60) % 3
    images = torch.randn(60, 3, 8, 8, generator=torch.Generator().manual_seed(1)) + labels[:, None, None, None]
    return ws.data.Data("own", train=ws.data.Split(images, labels), test=ws.data.Split(images[:30], labels[:30]))


def test_a_network_that_views_goes_through_every_verb(data):
    torch.manual_seed(0)
    network = LeNet()
    plain = network.eval()(data.test.x).argmax(1)
    assert ws.evaluate(network, data).correct == int((plain == data.test.y).sum())
    run = ws.train(network, data, epochs=2, schedule=0.01)
    assert run.history.rows[-1].train_loss < run.history.rows[0].train_loss
    assert {site.name for site in ws.angles(run.network, data).record.sites} == {"conv1", "conv2", "fc1"}
    small = ws.reduce(run.network, data, by="magnitude", target="params:0.5", random=2)
    assert small.record.reduced.parameters < small.record.whole.parameters
    assert ws.spike(run.network, data, steps=8, watch=2).record.decisions.cost is not None
    assert ws.diff(network, run.network, data, repeats=2).latency


def test_a_token_beyond_the_vocabulary_is_told():
    network = nn.Sequential(nn.Embedding(5, 4), nn.Flatten(), nn.Linear(12, 2))
    with pytest.raises(DataMismatch, match="the largest token is 7, so an embedding needs 8 rows"):
        outputs_of(network, torch.tensor([[0, 7, 1]]))
