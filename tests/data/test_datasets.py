from __future__ import annotations

import functools
import gzip
import json
import struct

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from weightsmith.core.errors import DataMissing, FileRefused, OptionError, UnknownName, UsageError
from weightsmith.core.records import digest_of
from weightsmith.data import datasets
from weightsmith.data.datasets import EmbeddedDigits, Folder, Table, as_data, fetch_data, known, load, load_all
from weightsmith.data.download import Remote
from weightsmith.data.normalise import CIFAR10, CIFAR100, FASHION_MNIST, NONE


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def mnist_files(seed: int = 0) -> dict[str, bytes]:
    draw = np.random.default_rng(seed)
    files = {}
    for prefix, count in (("train", 5), ("t10k", 3)):
        files[f"{prefix}-images-idx3-ubyte.gz"] = gzip.compress(idx(draw.integers(0, 256, (count, 28, 28), np.uint8)))
        files[f"{prefix}-labels-idx1-ubyte.gz"] = gzip.compress(idx(draw.integers(0, 10, count, np.uint8)))
    return files


def test_digits_need_nothing(no_data):
    data = load("digits")
    assert (len(data.train), len(data.test), data.validation) == (1437, 360, None)
    assert data.input_shape == (1, 8, 8)
    assert data.train.x.dtype == torch.float32
    assert (float(data.train.x.min()), float(data.train.x.max())) == (0.0, 1.0)
    assert (data.normalisation, data.origin) == (NONE, "scikit-learn")
    assert data.digest() == load("digits").digest()


@pytest.mark.parametrize("given", [(torch.zeros(3, 2), torch.zeros(3)), {}, None])
def test_what_is_no_name_or_path_goes_to_the_verbs_as_it_is(given):
    with pytest.raises(UsageError, match=r"arrays \(x, y\), Datasets and Data go to train"):
        load(given)


def test_folders_in_order(files, tmp_path, monkeypatch, own_cache):
    """The path given, then WEIGHTSMITH_DATA, then the cache: distinguished by their first training label."""
    for number, name in enumerate(("given", "env/fashion-mnist", "own-cache/data/fashion-mnist")):
        files(mnist_files(number), name)
    monkeypatch.setenv("WEIGHTSMITH_DATA", str(tmp_path / "env"))
    assert load("fashion-mnist", path=tmp_path / "given").origin == str(tmp_path / "given")
    data = load("fashion-mnist")
    assert data.origin == str(tmp_path / "env" / "fashion-mnist")
    assert (len(data.train), len(data.test), data.input_shape) == (5, 3, (1, 28, 28))
    assert data.normalisation == FASHION_MNIST
    assert data.classes[9] == "Ankle boot"
    (tmp_path / "env" / "fashion-mnist" / "t10k-images-idx3-ubyte.gz").unlink()
    assert load("fashion-mnist").origin == str(own_cache / "data" / "fashion-mnist")
    assert load("fashion-mnist", splits=("train",)).origin == str(tmp_path / "env" / "fashion-mnist")


def test_only_the_splits_asked_for_are_read(files, no_data):
    folder = files(mnist_files())
    (folder / "train-images-idx3-ubyte.gz").write_bytes(b"damaged")
    data = load("mnist", path=folder, splits=("test",))
    assert data.train is None
    assert len(data.split("test")) == 3
    with pytest.raises(UsageError, match="mnist has no train split here, only test"):
        data.split("train")
    with pytest.raises(FileRefused, match="IDX magic"):
        load("mnist", path=folder)


def test_missing_data_say_where_was_looked_and_the_way_out(monkeypatch, tmp_path, own_cache):
    monkeypatch.setenv("WEIGHTSMITH_DATA", str(tmp_path / "env"))
    with pytest.raises(DataMissing) as caught:
        load("cifar10")
    message = str(caught.value)
    for part in (
        str(tmp_path / "env" / "cifar10"),
        str(own_cache / "data" / "cifar10"),
        "weightsmith data fetch cifar10",
    ):
        assert part in message
    assert "WEIGHTSMITH_DATA" in message
    assert "\n" not in message
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (("cifar1",), {}, UnknownName, "did you mean 'cifar10'"),
        (("fashion_mnist",), {}, UnknownName, "did you mean 'fashion-mnist'"),
        (("mnist",), {"size": 3}, UsageError, "mnist takes no option size"),
        (("digits",), {"path": "x"}, UsageError, "takes no path"),
        (("digits",), {"splits": "train"}, UsageError, "a list of names"),
        (("digits",), {"splits": ()}, UsageError, "a list of names"),
        (("digits",), {"splits": ("trian",)}, UnknownName, "did you mean 'train'"),
        (("mnist",), {"splits": ("validation",)}, UsageError, "with_validation"),
        (("mnist",), {"path": "/no/such/place"}, FileRefused, "no such file or folder"),
        (("folder",), {}, OptionError, "needs path"),
        (("folder:a",), {"path": "b"}, UsageError, "given twice"),
        (("table:a.csv",), {"lable": "b"}, OptionError, "did you mean 'label'"),
    ],
)
def test_calls_that_cannot_be_carried_out(no_data, arguments, options, error, message):
    with pytest.raises(error, match=message):
        load(*arguments, **options)


def test_a_path_that_holds_something_else(tmp_path):
    with pytest.raises(
        FileRefused, match=r"does not hold the train and test split of cifar10 \(\{train,test\}\.parquet"
    ):
        load("cifar10", path=tmp_path)


@pytest.mark.parametrize("form", ["binary", "python"])
def test_cifar_from_official_archives(cifar, tar, form, no_data):
    name = f"cifar{cifar.classes}"
    data = load(name, path=tar(getattr(cifar, form)()))
    for split in ("train", "test"):
        images, labels = cifar.expected(split)
        assert np.array_equal(data.split(split).x.numpy(), images)
        assert data.split(split).y.tolist() == labels.tolist()
    assert data.classes == tuple(cifar.names)
    assert data.normalisation == (CIFAR10 if cifar.classes == 10 else CIFAR100)


def test_both_forms_give_the_same_digest(cifar, tar, files):
    name = f"cifar{cifar.classes}"
    binary, python = load(name, path=tar(cifar.binary())), load(name, path=files(cifar.python()))
    assert binary.digest() == python.digest()
    assert binary.origin != python.origin


def test_tables_and_folders_by_text_or_keyword(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("a,kind\n1,x\n2,y\n3,\n")
    text, keyword, given = (
        load(f"table:{path},label=kind"),
        load("table", path=path, label="kind"),
        load(Table(str(path), "kind")),
    )
    assert text.digest() == keyword.digest() == given.digest() == load(f"table:{path}", label="kind").digest()
    assert (text.name, text.origin, text.classes) == (f"table:{path},label=kind", str(path), ("x", "y"))
    assert "1 of 3 rows left out" in text.notes[0]
    assert text.test is None
    with pytest.raises(UsageError, match="has no test split"):
        load(f"table:{path},label=kind", splits=("test",))
    with pytest.raises(FileRefused, match="no such folder"):
        load(Folder(str(tmp_path / "nothing")))


def test_a_table_gets_its_test_rows_by_asking(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("label,x\n" + "".join(f"{i % 2},{i}\n" for i in range(20)))
    data = load(f"table:{path}").with_test(0.3, seed=1)
    assert (len(data.train), len(data.test)) == (14, 6)
    assert data.test.y.bincount().tolist() == [3, 3]


def test_known_reads_no_pixels(tmp_path, monkeypatch, own_cache):
    monkeypatch.setenv("WEIGHTSMITH_DATA", str(tmp_path))
    (tmp_path / "cifar10").mkdir()
    for split in ("train", "test"):
        (tmp_path / "cifar10" / f"{split}.parquet").write_bytes(b"not even Parquet")
    sets = {one.name: one for one in known()}
    own = ["folder:PATH", "parquet:PATH", "table:PATH"]
    assert list(sets) == ["digits", "mnist", "fashion-mnist", "cifar10", "cifar100", *own]
    assert sets["cifar10"].found == (str(tmp_path / "cifar10"),)
    assert sets["cifar100"].found == ()
    assert sets["digits"].found == ("scikit-learn",)
    assert sets["cifar10"].download_bytes == 170_498_071
    assert sets["digits"].download_bytes is None
    assert sets["mnist"].sizes == {"train": 60_000, "test": 10_000}
    assert json.loads(sets["cifar100"].to_json())["classes"][0] == "apple"
    assert sets["table:PATH"].description


@pytest.fixture
def origin(tmp_path, monkeypatch):
    """MNIST's four files behind a server of our own."""
    import hashlib
    import threading
    from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *args):
            pass

    folder = tmp_path / "origin"
    folder.mkdir()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    remotes = []
    for name, content in mnist_files(3).items():
        (folder / name).write_bytes(content)
        url = f"http://127.0.0.1:{server.server_port}/{name}"
        remotes.append(Remote(url, len(content), hashlib.sha256(content).hexdigest()))
    monkeypatch.setitem(datasets.REMOTES, "mnist", tuple(remotes))
    monkeypatch.setattr(datasets, "fetch", functools.partial(datasets.fetch, insecure=True))
    monkeypatch.delenv("http_proxy", raising=False)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield folder
    server.shutdown()
    server.server_close()
    thread.join()


def test_fetched_only_when_asked_then_found(origin, no_data, own_cache):
    with pytest.raises(DataMissing):
        load("mnist")
    assert not own_cache.exists()
    data = load("mnist", download=True)
    assert data.origin == str(own_cache / "data" / "mnist")
    assert load("mnist").digest() == data.digest()


def test_fetching_tells_each_file(origin, no_data, own_cache):
    calls = []
    folder = fetch_data("mnist", progress=lambda file, done, total: calls.append((file, done == total)))
    assert folder == own_cache / "data" / "mnist"
    assert dict(calls) == dict.fromkeys(mnist_files(), True)


def test_a_changed_origin_is_refused(origin, no_data, own_cache):
    path = origin / "t10k-labels-idx1-ubyte.gz"
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(FileRefused, match="digest"):
        load("mnist", download=True)


def test_what_cannot_be_fetched():
    with pytest.raises(UsageError, match="digits needs no fetching"):
        fetch_data("digits")
    with pytest.raises(UnknownName, match="did you mean 'mnist'"):
        fetch_data("mnits")


def test_without_a_network_it_is_told_where_the_files_go(monkeypatch, no_data, own_cache):
    def unreachable(url, path, **_):
        raise FileRefused(url, "cannot be fetched (no route to host)")

    monkeypatch.setattr("weightsmith.data.datasets.fetch", unreachable)
    with pytest.raises(
        FileRefused, match=r"no route.*without internet, put train-images.* into .*mnist, or mnist/ into"
    ):
        fetch_data("mnist")


def test_loading_changes_nothing_global(no_data):
    before = torch.random.get_rng_state(), np.random.get_state()[1].tolist(), torch.get_num_threads()
    load("digits").with_validation(0.2, seed=5)
    after = torch.random.get_rng_state(), np.random.get_state()[1].tolist(), torch.get_num_threads()
    assert torch.equal(before[0], after[0])
    assert before[1:] == after[1:]


# Real data.


@pytest.mark.data
def test_fashion_mnist(real_data):
    data = as_data("fashion-mnist")
    assert (len(data.train), len(data.test), data.input_shape) == (60_000, 10_000, (1, 28, 28))
    assert data.train.y.bincount().tolist() == [6000] * 10
    assert data.test.y.bincount().tolist() == [1000] * 10
    pixels = data.train.x.double() / 255
    assert float(pixels.mean()) == pytest.approx(data.normalisation.mean[0], abs=1e-6)
    assert float(pixels.std(correction=0)) == pytest.approx(data.normalisation.std[0], abs=1e-6)
    assert data.notes == ()


@pytest.mark.data
def test_cifar10_test_split(real_data):
    data = load("cifar10", splits=("test",))
    assert len(data.test) == 10_000
    assert data.test.y[:10].tolist() == [3, 8, 8, 0, 6, 6, 1, 6, 3, 1]
    assert data.test.y.bincount().tolist() == [1000] * 10
    assert data.classes[3] == "cat"
    assert data.notes == ()


@pytest.mark.data
@pytest.mark.slow
def test_cifar10_training_statistics(real_data, own_cache):
    data = load("cifar10")
    assert data.train.y[:10].tolist() == [6, 9, 9, 4, 1, 1, 2, 7, 8, 3]
    assert data.train.y.bincount().tolist() == [5000] * 10
    for channel in range(3):
        pixels = data.train.x[:, channel].double() / 255
        assert float(pixels.mean()) == pytest.approx(CIFAR10.mean[channel], abs=1e-6)
        assert float(pixels.std(correction=0)) == pytest.approx(CIFAR10.std[channel], abs=1e-6)
    assert len(list(own_cache.glob("decoded/*.npz"))) == 1
    assert load("cifar10", splits=("train",)).train.digest() == data.train.digest()


@pytest.mark.data
@pytest.mark.slow
def test_cifar100_is_lossy_and_says_so(real_data):
    data = load("cifar100")
    assert data.train.y.bincount().tolist() == [500] * 100
    assert data.test.y.bincount().tolist() == [100] * 100
    assert data.test.y[:5].tolist() == [0, 1, 2, 3, 4]
    assert len(data.notes) == 2
    assert all("stored with loss" in note for note in data.notes)
    assert data.classes == datasets.CATALOGUE["cifar100"].classes
    for channel in range(3):
        pixels = data.train.x[:, channel].double() / 255
        assert float(pixels.mean()) == pytest.approx(CIFAR100.mean[channel], abs=5e-3)


def test_load_all_brings_every_split_there_is(tmp_path):
    assert set(load_all("digits").splits) == {"train", "test"}
    (tmp_path / "t.csv").write_text("label,a\n0,1\n1,2\n")
    assert set(load_all(tmp_path / "t.csv").splits) == {"train"}
    assert set(load_all("table", path=tmp_path / "t.csv").splits) == {"train"}


def test_every_digit_is_in_one_split_and_exact():
    parts = EmbeddedDigits().read(("train", "test"))
    x = np.concatenate([parts["train"].x, parts["test"].x])
    y = np.concatenate([parts["train"].y, parts["test"].y])
    pixels, labels = load_digits(return_X_y=True)
    assert x.dtype == np.float32
    mine = sorted((*map(float, row.ravel() * 16), float(label)) for row, label in zip(x, y, strict=True))
    theirs = sorted((*row, float(label)) for row, label in zip(pixels, labels, strict=True))
    assert mine == theirs


def test_the_split_is_stratified_and_never_changes():
    parts = EmbeddedDigits().read(("train", "test"))
    assert (len(parts["train"].y), len(parts["test"].y)) == (1437, 360)
    counts = np.bincount(np.concatenate([parts["train"].y, parts["test"].y]))
    assert np.abs(np.bincount(parts["test"].y) - counts * 360 / 1797).max() < 1
    assert digest_of(parts["test"].x) == "00216c186e992ff941c4e5dfb43e291c63571a8571ce14ffad06e29425f12caf"
    assert list(EmbeddedDigits().read(("test",))) == ["test"]


def test_shares_of_the_rows_become_splits_the_same_ones_each_time(tmp_path):
    rows = "\n".join(f"{'ab'[i % 2]},{i}" for i in range(40))
    (tmp_path / "rows.csv").write_text(f"label,x\n{rows}\n")
    both = load_all(f"table:{tmp_path}/rows.csv,test=0.2,validation=0.25")
    assert {name: len(part) for name, part in both.splits.items()} == {"train": 24, "validation": 8, "test": 8}
    alone = load(f"table:{tmp_path}/rows.csv,test=0.2", splits=("test",))
    assert list(alone.splits) == ["test"]
    assert alone.test.digest() == both.test.digest()
    with pytest.raises(UsageError, match=r"has no test split, only train; test=0.2 after its path"):
        load(f"table:{tmp_path}/rows.csv", splits=("test",))


def test_a_path_that_is_not_there_is_called_missing():
    for name in ("nowhere.csv", "some/folder"):
        with pytest.raises(FileRefused, match="no such file or folder"):
            load(name)
    with pytest.raises(UnknownName, match="unknown data set 'nowhere'"):
        load("nowhere")
