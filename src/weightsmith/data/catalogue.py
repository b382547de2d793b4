"""The data sets known by name: what they are, and in which formats their files are read."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from weightsmith.data.arrays import Files
from weightsmith.data.formats.cifar import CIFAR10_FILES, CIFAR100_FILES, find_cifar
from weightsmith.data.formats.idx import IdxFiles
from weightsmith.data.normalise import CIFAR10, CIFAR100, FASHION_MNIST, MNIST, NONE, Normalisation

__all__ = ["CATALOGUE", "KnownSet"]


@dataclass(frozen=True)
class KnownSet:
    """One data set: ``find`` recognises its files at a path; without it the set needs no files."""

    name: str
    description: str
    shape: tuple[int, ...]
    classes: tuple[str, ...]
    sizes: dict[str, int]
    normalisation: Normalisation
    files: tuple[str, ...] = ()
    find: Callable[[Path, Sequence[str]], Files | None] | None = None


_DIGITS = tuple("0123456789")
_IDX = tuple(
    f"{part}-ubyte[.gz]" for part in ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
)

_CIFAR100_NAMES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel can castle
caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur dolphin elephant flatfish
forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion lizard lobster man maple_tree motorcycle
mountain mouse mushroom oak_tree orange orchid otter palm_tree pear pickup_truck pine_tree plain plate poppy porcupine
possum rabbit raccoon ray road rocket rose sea seal shark shrew skunk skyscraper snail snake spider squirrel streetcar
sunflower sweet_pepper table tank telephone television tiger tractor train trout tulip turtle wardrobe whale
willow_tree wolf woman worm
"""

_SETS = (
    KnownSet(
        "digits",
        "handwritten digits that come with scikit-learn; fixed stratified split",
        shape=(1, 8, 8),
        classes=_DIGITS,
        sizes={"train": 1437, "test": 360},
        normalisation=NONE,
    ),
    KnownSet(
        "mnist",
        "handwritten digits (LeCun, Cortes and Burges 1998)",
        shape=(1, 28, 28),
        classes=_DIGITS,
        sizes={"train": 60_000, "test": 10_000},
        normalisation=MNIST,
        files=_IDX,
        find=partial(IdxFiles.find, size=(28, 28), classes=10),
    ),
    KnownSet(
        "fashion-mnist",
        "articles of clothing (Xiao, Rasul and Vollgraf 2017), MIT licence",
        shape=(1, 28, 28),
        classes=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        sizes={"train": 60_000, "test": 10_000},
        normalisation=FASHION_MNIST,
        files=_IDX,
        find=partial(IdxFiles.find, size=(28, 28), classes=10),
    ),
    KnownSet(
        "cifar10",
        "colour photographs (Krizhevsky 2009)",
        shape=(3, 32, 32),
        classes=(
            *("airplane", "automobile", "bird", "cat", "deer"),
            *("dog", "frog", "horse", "ship", "truck"),
        ),
        sizes={"train": 50_000, "test": 10_000},
        normalisation=CIFAR10,
        files=("{train,test}.parquet", *CIFAR10_FILES.archives, *(f"{name}/" for name in CIFAR10_FILES.folders)),
        find=partial(find_cifar, layout=CIFAR10_FILES),
    ),
    KnownSet(
        "cifar100",
        "colour photographs with fine labels (Krizhevsky 2009)",
        shape=(3, 32, 32),
        classes=tuple(_CIFAR100_NAMES.split()),
        sizes={"train": 50_000, "test": 10_000},
        normalisation=CIFAR100,
        files=("{train,test}.parquet", *CIFAR100_FILES.archives, *(f"{name}/" for name in CIFAR100_FILES.folders)),
        find=partial(find_cifar, layout=CIFAR100_FILES),
    ),
)

CATALOGUE = {known.name: known for known in _SETS}
"""Every data set that has a name, by name."""
