from __future__ import annotations

import pytest

from weightsmith.chain.examples import EXAMPLES, example
from weightsmith.chain.recipe import Recipe
from weightsmith.core.errors import UnknownName


@pytest.mark.parametrize("name", ["digits", "fashion-mnist"])
def test_the_demonstrations_do_what_a_newcomer_is_promised(name):
    recipe = Recipe.parse(example(name))
    assert recipe.data == name
    kinds = [stage.kind for stage in recipe.stages]
    assert [kinds.count(kind) for kind in ("train", "grade", "angles", "reduce", "spike")] == [1, 1, 1, 2, 2]
    methods = [stage.options["by"].partition(":")[0] for stage in recipe.stages if stage.kind == "reduce"]
    assert methods == ["angles", "genetic"]
    first, second = (stage.options for stage in recipe.stages if stage.kind == "spike")
    assert {**first, "adjust": second["adjust"]} == second  # nothing but the adjustment is different


def test_an_unknown_one_is_named():
    with pytest.raises(UnknownName, match="digits"):
        example("digit")
    assert set(EXAMPLES) == {"new", "digits", "fashion-mnist"}
