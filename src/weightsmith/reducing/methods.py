"""Import all pruning methods, which registers their text forms."""

from weightsmith.reducing.criteria.angles import Angles
from weightsmith.reducing.criteria.error import LeastError
from weightsmith.reducing.criteria.folding import Folding
from weightsmith.reducing.criteria.groups import Groups
from weightsmith.reducing.criteria.method import Method
from weightsmith.reducing.criteria.plain import Magnitude, NormScale, Random
from weightsmith.reducing.criteria.taylor import Taylor
from weightsmith.reducing.search.compensated import Compensated
from weightsmith.reducing.search.genetic import Genetic, Pareto

__all__ = [
    "Angles",
    "Compensated",
    "Folding",
    "Genetic",
    "Groups",
    "LeastError",
    "Magnitude",
    "Method",
    "NormScale",
    "Pareto",
    "Random",
    "Taylor",
]
