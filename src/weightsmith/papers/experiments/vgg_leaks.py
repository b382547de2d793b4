"""The L4 adjustment on the paper's VGG-11 with CIFAR-100 (L4 norm, figure 8), narrower than the paper's."""

from __future__ import annotations

from weightsmith.papers.experiments import leaks
from weightsmith.papers.reproduction import Experiment, Settings

__all__ = ["EXPERIMENT"]

EXPERIMENT = Experiment(
    name="vgg-leaks",
    document="L4 norm",
    says="Figure 8 converts a VGG-11 for the 100 classes of CIFAR-100 into leaky spiking neurons of 125 steps. Here it "
    "is built alike with an eighth to a sixteenth of the channels.",
    claims=leaks.claims("figure 8, VGG-11"),
    measure=leaks.measure,
    prepare=leaks.train_network,
    full=Settings(
        leaks.SCENARIOS,
        seeds=(0,),
        data="cifar100",
        prepare={
            "network": "vgg:11,widths=[8,16,24,24,32,32,32,32,32],classifier=[64,64],dropout=0,classifier_dropout=0",
            "rows": None,
            "epochs": 10,
        },
        all={
            "steps": 125,
            "images": 100,
            "judged": 2_000,
            "balance": "max-current:images=128",
        },
    ),
    quick=Settings(
        leaks.SCENARIOS,
        seeds=(0,),
        data="digits",
        prepare={
            "network": "vgg:5,widths=[4,4,4],classifier=[16],dropout=0,classifier_dropout=0",
            "rows": None,
            "epochs": 3,
        },
        all={
            "steps": 8,
            "images": 8,
            "judged": 16,
            "balance": "max-current:images=16,steps=16",
        },
    ),
    judge=leaks.judge,
    shows=leaks.SHOWS,
    draw=leaks.draw,
    how="Test accuracy of the adjusted minus that of the unadjusted network, each at its best threshold.",
    minutes=35.0,
)
