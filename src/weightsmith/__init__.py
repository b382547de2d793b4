"""weightsmith: a workshop for trained neural networks.

    import weightsmith as ws

    data = ws.data.load("digits")
    run = ws.train("mlp:64,32", data, schedule=ws.Cosine(0.1), epochs=20)
    print(ws.evaluate(run.network, data).accuracy)

Names are imported on first use, so ``import weightsmith`` is fast and has no side effects.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from weightsmith._version import __version__
from weightsmith.core.display import show_by

if TYPE_CHECKING:
    from weightsmith import compat, data, networks
    from weightsmith.chain.diff.diff import diff
    from weightsmith.chain.diff.differences import NetworkDiff
    from weightsmith.chain.links import live_alpha, live_redundancy
    from weightsmith.chain.pipeline import pipeline
    from weightsmith.chain.prices import Synaptic, price_of
    from weightsmith.chain.recipe import Recipe
    from weightsmith.chain.report import report
    from weightsmith.chain.results import ChainRun
    from weightsmith.chain.tailor.results import Tailored
    from weightsmith.chain.tailor.tailoring import tailor
    from weightsmith.core.errors import (
        DataMismatch,
        DataMissing,
        FileRefused,
        MissingExtra,
        OptionError,
        UnknownName,
        UsageError,
        WeightsmithError,
        WorkerLost,
    )
    from weightsmith.core.sweep import SweepTable, grid, sweep
    from weightsmith.data.augment import CropFlip
    from weightsmith.data.datasets import Data
    from weightsmith.data.normalise import Normalisation
    from weightsmith.grading.comparison import GradeComparison, compare
    from weightsmith.grading.distances import Distances, distances
    from weightsmith.grading.evidence import FastEvidence, FullEvidence, NoEvidence
    from weightsmith.grading.fits.cuts import Hill, SmallestDistance, UnitDeterminant
    from weightsmith.grading.grade import grade
    from weightsmith.grading.margins import Margins, margins
    from weightsmith.grading.plans import alpha_plan
    from weightsmith.grading.results import Grades, LayerGrade
    from weightsmith.grading.smoothing import BeyondNoise, InTail, TopCount, TopShare, Traps, sharpen, smooth
    from weightsmith.networks.evaluating import evaluate
    from weightsmith.networks.evaluation import Evaluation
    from weightsmith.networks.files import load, save
    from weightsmith.networks.layer_plan import LayerPlan, norm_plan
    from weightsmith.networks.layers.walk import LayerWeights, walk
    from weightsmith.networks.models.architecture import Architecture
    from weightsmith.networks.target_evaluation import LabelEvaluation, RegressionEvaluation
    from weightsmith.papers.study.study import reduction_study
    from weightsmith.reducing.inspecting import UnitAngles, angles
    from weightsmith.reducing.methods import (
        Angles,
        Compensated,
        Folding,
        Genetic,
        Groups,
        LeastError,
        Magnitude,
        NormScale,
        Pareto,
        Random,
        Taylor,
    )
    from weightsmith.reducing.recovery.recover import Distill, FineTune, Iterate, Recalibrate, Rewind
    from weightsmith.reducing.reduce import reduce
    from weightsmith.reducing.refitting.options import LeastSquares, NoRefit
    from weightsmith.reducing.results import Reduction
    from weightsmith.reducing.study_table import Study
    from weightsmith.reducing.surgery.sizes import Macs, Params
    from weightsmith.spiking.conversion.balance import MaxCurrent, Mse, Percentile
    from weightsmith.spiking.conversion.calibrate import CalibrateBias, CalibrateDistill, CalibrateWeights
    from weightsmith.spiking.encoding import ConstantInput, Poisson
    from weightsmith.spiking.energy.cost import Prices
    from weightsmith.spiking.files import load_spiking, save_spiking
    from weightsmith.spiking.l4.adjust import L4
    from weightsmith.spiking.network import SpikingNetwork
    from weightsmith.spiking.neurons import IF, LIF, Graded, Mismatch
    from weightsmith.spiking.nir.exchange import import_nir
    from weightsmith.spiking.nir.export import export_nir
    from weightsmith.spiking.portable.export import export_torch
    from weightsmith.spiking.results import SpikeRun
    from weightsmith.spiking.simulation.exits import Margin
    from weightsmith.spiking.spike import spike
    from weightsmith.spiking.sweep.racing import Racing
    from weightsmith.spiking.sweep.results import SpikeSweep
    from weightsmith.spiking.sweep.sweeping import spike_sweep
    from weightsmith.training.clipping import ClipGlobalNorm, ClipNorm, ClipValue
    from weightsmith.training.diagnosis.diagnose import diagnose
    from weightsmith.training.diagnosis.gradients import GradientDiagnosis
    from weightsmith.training.estimator import Classifier, Regressor
    from weightsmith.training.finder import RateCurve, find_rate
    from weightsmith.training.freezing import freeze, unfreeze
    from weightsmith.training.loop import train
    from weightsmith.training.losses import CrossEntropy, SquaredError
    from weightsmith.training.montecarlo import Prediction, monte_carlo
    from weightsmith.training.optimisers import Adam, AdamW, Momentum, NAdam, Nesterov, RmsProp, Sgd
    from weightsmith.training.penalties import L1, L2, GroupLasso, L4Balance, MaxNorm, SpectralNorm, StableRank
    from weightsmith.training.plan import TrainingWarning
    from weightsmith.training.presets import spike_ready
    from weightsmith.training.run import History, StopTraining, TrainRecord, TrainRun
    from weightsmith.training.schedules import (
        Constant,
        Cosine,
        Exponential,
        OneCycle,
        Piecewise,
        Plateau,
        Power,
        Span,
        WarmUp,
    )
    from weightsmith.training.schedules.check import check_schedule
    from weightsmith.training.stopping import EarlyStopping
    from weightsmith.training.tensorboard import TensorBoard
    from weightsmith.training.transfer import transfer
    from weightsmith.training.transferring import TransferRun

_HOMES = {
    "core.errors": (
        "DataMismatch DataMissing FileRefused MissingExtra OptionError UnknownName UsageError WeightsmithError "
        "WorkerLost"
    ),
    "core.sweep": "SweepTable grid sweep",
    "data.augment": "CropFlip",
    "data.datasets": "Data",
    "data.normalise": "Normalisation",
    "grading.comparison": "GradeComparison compare",
    "grading.fits.cuts": "Hill SmallestDistance UnitDeterminant",
    "grading.smoothing": "BeyondNoise InTail TopCount TopShare Traps sharpen smooth",
    "grading.distances": "Distances distances",
    "grading.evidence": "FastEvidence FullEvidence NoEvidence",
    "grading.grade": "grade",
    "grading.margins": "Margins margins",
    "grading.plans": "alpha_plan",
    "grading.results": "Grades LayerGrade",
    "networks.models.architecture": "Architecture",
    "networks.evaluating": "evaluate",
    "networks.evaluation": "Evaluation",
    "networks.target_evaluation": "LabelEvaluation RegressionEvaluation",
    "networks.files": "load save",
    "networks.layer_plan": "LayerPlan norm_plan",
    "networks.layers.walk": "LayerWeights walk",
    "chain.pipeline": "pipeline",
    "chain.diff.diff": "diff",
    "chain.diff.differences": "NetworkDiff",
    "chain.links": "live_alpha live_redundancy",
    "chain.prices": "Synaptic price_of",
    "chain.recipe": "Recipe",
    "chain.report": "report",
    "chain.results": "ChainRun",
    "chain.tailor.results": "Tailored",
    "chain.tailor.tailoring": "tailor",
    "reducing.methods": "Angles Compensated Folding Genetic Groups LeastError Magnitude NormScale Pareto Random Taylor",
    "reducing.reduce": "reduce",
    "reducing.results": "Reduction",
    "reducing.recovery.recover": "Distill FineTune Iterate Recalibrate Rewind",
    "reducing.refitting.options": "LeastSquares NoRefit",
    "reducing.surgery.sizes": "Macs Params",
    "reducing.inspecting": "angles UnitAngles",
    "papers.study.study": "reduction_study",
    "reducing.study_table": "Study",
    "spiking.l4.adjust": "L4",
    "spiking.conversion.balance": "MaxCurrent Mse Percentile",
    "spiking.conversion.calibrate": "CalibrateBias CalibrateDistill CalibrateWeights",
    "spiking.encoding": "ConstantInput Poisson",
    "spiking.energy.cost": "Prices",
    "spiking.simulation.exits": "Margin",
    "spiking.files": "load_spiking save_spiking",
    "spiking.network": "SpikingNetwork",
    "spiking.neurons": "IF LIF Graded Mismatch",
    "spiking.nir.exchange": "import_nir",
    "spiking.nir.export": "export_nir",
    "spiking.portable.export": "export_torch",
    "spiking.sweep.racing": "Racing",
    "spiking.results": "SpikeRun",
    "spiking.spike": "spike",
    "spiking.sweep.results": "SpikeSweep",
    "spiking.sweep.sweeping": "spike_sweep",
    "training.clipping": "ClipGlobalNorm ClipNorm ClipValue",
    "training.diagnosis.diagnose": "diagnose",
    "training.estimator": "Classifier Regressor",
    "training.finder": "RateCurve find_rate",
    "training.freezing": "freeze unfreeze",
    "training.diagnosis.gradients": "GradientDiagnosis",
    "training.loop": "train",
    "training.losses": "CrossEntropy SquaredError",
    "training.montecarlo": "Prediction monte_carlo",
    "training.optimisers": "Adam AdamW Momentum NAdam Nesterov RmsProp Sgd",
    "training.penalties": "L1 L2 GroupLasso L4Balance MaxNorm SpectralNorm StableRank",
    "training.plan": "TrainingWarning",
    "training.presets": "spike_ready",
    "training.run": "History StopTraining TrainRecord TrainRun",
    "training.schedules.check": "check_schedule",
    "training.schedules": "Constant Cosine Exponential OneCycle Piecewise Plateau Power Span WarmUp",
    "training.stopping": "EarlyStopping",
    "training.tensorboard": "TensorBoard",
    "training.transfer": "transfer",
    "training.transferring": "TransferRun",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = [
    "IF", "L1", "L2", "L4", "LIF", "Adam", "AdamW", "Angles", "Architecture", "BeyondNoise", "CalibrateBias",
    "CalibrateDistill", "CalibrateWeights", "ChainRun", "Classifier", "ClipGlobalNorm", "ClipNorm", "ClipValue",
    "Compensated", "Constant", "ConstantInput", "Cosine", "CropFlip", "CrossEntropy", "Data", "DataMismatch",
    "DataMissing", "Distances", "Distill", "EarlyStopping", "Evaluation", "Exponential", "FastEvidence", "FileRefused",
    "FineTune", "Folding", "FullEvidence", "Genetic", "GradeComparison", "Graded", "Grades", "GradientDiagnosis",
    "GroupLasso", "Groups", "Hill", "History", "InTail", "Iterate", "L4Balance", "LabelEvaluation", "LayerGrade",
    "LayerPlan", "LayerWeights", "LeastError", "LeastSquares", "Macs", "Magnitude", "Margin", "Margins", "MaxCurrent",
    "MaxNorm", "Mismatch", "MissingExtra", "Momentum", "Mse", "NAdam", "Nesterov", "NetworkDiff", "NoEvidence",
    "NoRefit", "NormScale", "Normalisation", "OneCycle", "OptionError", "Params", "Pareto", "Percentile", "Piecewise",
    "Plateau", "Poisson", "Power", "Prediction", "Prices", "Racing", "Random", "RateCurve", "Recalibrate", "Recipe",
    "Reduction", "RegressionEvaluation", "Regressor", "Rewind", "RmsProp", "Sgd", "SmallestDistance", "Span",
    "SpectralNorm", "SpikeRun", "SpikeSweep", "SpikingNetwork", "SquaredError", "StableRank", "StopTraining", "Study",
    "SweepTable", "Synaptic", "Tailored", "Taylor", "TensorBoard", "TopCount", "TopShare", "TrainRecord", "TrainRun",
    "TrainingWarning", "TransferRun", "Traps", "UnitAngles", "UnitDeterminant", "UnknownName", "UsageError", "WarmUp",
    "WeightsmithError", "WorkerLost", "__version__", "alpha_plan", "angles", "check_schedule", "compare", "compat",
    "data", "diagnose", "diff", "distances", "evaluate", "export_nir", "export_torch", "find_rate", "freeze", "grade",
    "grid", "import_nir", "live_alpha", "live_redundancy", "load", "load_spiking", "margins", "monte_carlo", "networks",
    "norm_plan", "pipeline", "price_of", "reduce", "reduction_study", "report", "save", "save_spiking", "sharpen",
    "smooth", "spike", "spike_ready", "spike_sweep", "sweep", "tailor", "train", "transfer", "unfreeze", "walk",
]  # fmt: skip


def _in_notebook(result: Any) -> str | None:
    """HTML of a result; the reporting code is imported only when a notebook displays one."""
    shown: str | None = importlib.import_module("weightsmith.reporting.notebook").html(result)
    return shown


show_by(_in_notebook)


def __getattr__(name: str) -> Any:
    if name in ("compat", "data", "networks"):
        return importlib.import_module(f"weightsmith.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'weightsmith' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"weightsmith.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
