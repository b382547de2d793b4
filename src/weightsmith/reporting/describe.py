"""The description of every result: answer, numbers, tables, drawings, notes, what to look at and to try next."""

from __future__ import annotations

import importlib
import re
from typing import Any

from weightsmith.core.errors import UsageError
from weightsmith.core.records import Record
from weightsmith.reporting.parts import Section

__all__ = ["describe"]

_SECTIONS = {
    "AnglesRecord": "angles.angles_section",
    "Contents": "contents.contents_section",
    "Evaluation": "evaluating.evaluation_section",
    "GradeComparison": "comparing.comparison_section",
    "Grades": "grading.grading_section",
    "LabelEvaluation": "evaluating_targets.label_section",
    "NirExport": "exporting.export_section",
    "ReductionRecord": "reducing.reduction_section",
    "RegressionEvaluation": "evaluating_targets.regression_section",
    "SpikeRecord": "spiking.spiking_section",
    "SpikingContents": "contents.spiking_contents_section",
    "SpikingEvaluation": "evaluating.spiking_evaluation_section",
    "SpikeSweep": "sweeping.sweep_section",
    "Study": "studying.study_section",
    "SweepTable": "tabulating.table_section",
    "TorchExport": "exporting.torch_export_section",
    "TrainRecord": "training.training_section",
    "TransferRecord": "transferring.transfer_section",
}
"""The kinds of records, and the function in ``reporting.sections`` that describes each.

A record of a higher package names its own: ``described_by = "chain.diff.section.diff_section"``.
"""


_DIGEST = re.compile("[0-9a-f]{64}")


def describe(result: Any, name: str = "", **asked: Any) -> Section:
    """The description of what a verb returned, or of its record; ``name`` is the name of its file or run.

    ``asked`` holds options of the description, such as ``least_accuracy`` for a reduction.

    >>> import weightsmith as ws
    >>> description = describe(ws.grade(ws.networks.mlp(64, 32, 10), evidence="none"), "untrained")
    >>> description.title, description["Left out"].to_rows()
    ('Grades: untrained', [{'reason': 'bias', 'tensors': 2, 'parameters': 42, 'which': 'dense1.bias, output.bias'}])
    """
    record = result if isinstance(result, Record) else getattr(result, "record", None)
    home = getattr(record, "described_by", None) or _SECTIONS.get(type(record).__name__)
    if home is None:
        raise UsageError(f"a {type(result).__name__} has no description: give what a verb returned, or its record")
    module, _, function = home.rpartition(".")
    place = module if "." in module else f"reporting.sections.{module}"
    section = getattr(importlib.import_module(f"weightsmith.{place}"), function)
    taken = result if home in _WHOLE else record
    made: Section = section(taken, name or _name(record), **asked)
    return made


_WHOLE = (
    "angles.angles_section",
    "reducing.reduction_section",
    "chain.section.chain_section",
    "chain.tailor.section.tailor_section",
)
"""Descriptions that need the whole result, not only its record."""


def _name(record: Any) -> str:
    """The network's name for a result without one; records with ``described_by`` name themselves."""
    named = getattr(record, "source", None) or getattr(record, "network", None)
    if _DIGEST.fullmatch(str(named)):
        return "your network"  # a module without a text form is known by its digest
    return str(named or ("" if hasattr(record, "described_by") else "unnamed"))
