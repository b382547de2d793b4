"""All methods of reduction in one place, so that their text forms are known wherever one is read."""

from weightsmith.reducing.angles import Angles
from weightsmith.reducing.genetic import Genetic
from weightsmith.reducing.groups import Groups
from weightsmith.reducing.method import Method
from weightsmith.reducing.pareto import Pareto
from weightsmith.reducing.plain import Magnitude, Random

__all__ = ["Angles", "Genetic", "Groups", "Magnitude", "Method", "Pareto", "Random"]
