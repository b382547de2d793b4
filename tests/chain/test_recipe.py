from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from weightsmith.chain.recipe import EXAMPLES, Recipe, example, key_lines, read_recipe
from weightsmith.core.errors import FileRefused, UnknownName, UsageError

PLAIN = """\
data = "digits"
seeds = [0, 3]
[train]
network = "mlp:8"
schedule = "cosine:0.1"
keep = [2]
[[grade]]
[[reduce]]
name = "small"
by = "angles:45"
recover = "rewind:2"
[[reduce]]
of = "small"
by = "groups"
target = "params:0.5"
plan = "alpha"
[[spike]]
[[spike]]
name = "of-small"
of = "small"
adjust = "l4:1.0"
"""


def test_stages_stand_behind_the_one_whose_network_they_take():
    recipe = Recipe.parse(PLAIN)
    assert [(stage.name, stage.kind, stage.of) for stage in recipe.stages] == [
        ("train", "train", None),
        ("grade", "grade", "train"),
        ("small", "reduce", "train"),
        ("reduce-2", "reduce", "small"),
        ("spike", "spike", "reduce-2"),
        ("of-small", "spike", "small"),
    ]
    assert recipe.seeds == (0, 3)
    assert recipe.stages[0].options == {"network": "mlp:8", "schedule": "cosine:0.1", "keep": [2]}
    assert recipe.stages[2].options == {"by": "angles:45.0", "recover": "rewind:2"}


def test_a_grade_may_be_of_a_reduction_that_is_written_after_it():
    recipe = Recipe.parse(
        'data="digits"\n[train]\nnetwork="mlp:8"\n[[grade]]\nof="small"\n[[reduce]]\nname="small"\nby="angles:45"\n'
    )
    assert [stage.name for stage in recipe.stages] == ["train", "small", "grade"]


def test_tables_and_text_are_the_same_recipe():
    assert Recipe.from_tables(tomllib.loads(PLAIN)) == Recipe.parse(PLAIN)


def test_the_record_of_a_recipe_is_json():
    import json

    tables = Recipe.parse(PLAIN).to_dict()
    assert json.loads(json.dumps(tables)) == tables
    assert tables["stages"][0] == {
        "kind": "train",
        "name": "train",
        "of": None,
        "options": {"network": "mlp:8", "schedule": "cosine:0.1", "keep": [2]},
    }


HEAD = 'data = "digits"\n[train]\nnetwork = "mlp:8"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "epochs = 0\n", r"^r.toml, line 4, train.epochs: .* ≥ 1, not 0$"),
        (HEAD + "epoch = 3\n", r"^r.toml, line 4, train.epoch: .*did you mean 'epochs'"),
        (HEAD + 'schedule = "cosin:0.1"\n', r"line 4, train.schedule: .*did you mean 'cosine'"),
        (
            HEAD + "\n# a comment\nclip = 3\n",
            r"line 6, train.clip: clip must be one of value, norm, .*, not 3",
        ),
        (HEAD + '[[reduce]]\nby = "groups"\n[[reduce]]\nby = "angels:45"\n', r"line 7, reduce.2.by: .*'angles'"),
        (HEAD + "epochs = 3\nkeep = [1, 4]\n", r"line 5, train.keep: epoch 4 is after the last epoch, 3"),
        ('data = "digits"\nnetwork = "none.pt"\n[[grade]]\n', r"line 2, network: none.pt: no such file"),
        (HEAD + "[[reduce]]\n", r"line 4, reduce.1: by is missing"),
        (HEAD + '[[reduce]]\nby = "magnitude"\n', r"line 5, reduce.1.by: needs a target"),
        (HEAD + '[[reduce]]\nby = "groups"\nplan = "alpha"\n', r"line 6, reduce.1.plan: needs a target"),
        (HEAD + '[[reduce]]\nby = "groups"\nprice = "synaptic"\n', r"line 6, reduce.1.price: groups does not search"),
        (HEAD + '[[reduce]]\nby = "groups"\nprice = "euro"\n', r"line 6, reduce.1.price: unknown price 'euro'"),
        (HEAD + '[[reduce]]\nby="groups"\nrecover="rewind:2"\n', r"line 6, reduce.1.recover: .*needs keep = \[2\]"),
        (HEAD + '[[spike]]\nof = "smal"\n', r"line 5, spike.1.of: unknown stage that gives a network 'smal'"),
        (HEAD + '[[grade]]\nname = "train"\n', r"line 5, grade.1.name: two stages are called 'train'"),
        (HEAD + '[[grade]]\nname = "Train"\n', r"two stages are called 'Train'"),
        (HEAD + '[[grade]]\nname = "../x"\n', r"line 5, grade.1.name: must be a short word"),
        (HEAD + '[[grade]]\nname = "report.html"\n', r"line 5, grade.1.name: report.html is a name that every chain"),
        (HEAD + '[[grade]]\nname = "given"\n', r"line 5, grade.1.name: given is a name that every chain"),
        (
            HEAD + '[[reduce]]\nby="groups"\ntarget="params:0.5"\nplan = "alfa"\n',
            r"line 7, reduce.1.plan: alfa is neither",
        ),
        (
            HEAD + 'epochs=3\nkeep=[3]\n[[reduce]]\nby="groups"\nrecover="rewind:3"\n',
            r"recover: .*an epoch before the last one",
        ),
        (
            'data = "digitz"\n[train]\nnetwork = "mlp:8"\n',
            r"line 1, data: unknown data set 'digitz'; did you mean 'digits'",
        ),
        (
            'data = "digits"\nnormalise = "0.5/0.5"\n[train]\nnetwork="mlp:8"\n',
            r"line 2, normalise: belongs to network",
        ),
        (HEAD + "[spiek]\n", r"line 4, spiek: unknown key 'spiek'; did you mean 'spike'"),
        ('data = "digits"\n', r"needs \[train\], or network"),
        ('data = "digits"\nnetwork = "pyproject.toml"\n[train]\nnetwork = "mlp:8"\n', "has both"),
        ('[train]\nnetwork = "mlp:8"\n', "data is missing"),
        ('data = "digits"\nnetwork = "pyproject.toml"\n', "has no stage"),
        ('data = "digits"\nseeds = [1, 1]\n[train]\nnetwork="mlp:8"\n', r"line 2, seeds: .*none twice"),
        ('data = "digits"\nseeds = ["a"]\n[train]\nnetwork="mlp:8"\n', r"line 2, seeds: a seed must be"),
        ('data = 3\n[train]\nnetwork="mlp:8"\n', r"line 1, data: must be text"),
        ('data = "digits"\nreport = 3\n[train]\nnetwork="mlp:8"\n', r"line 2, report: must be true or false"),
        ('data = "digits"\n[[train]]\nnetwork="mlp:8"\n', r"line 2, train: only one network"),
        ('data = "digits"\ntrain = 3\n', r"line 2, train: must be a table"),
        (HEAD + "epochs = \n", r"r.toml is not TOML: .*line 4"),
        (HEAD + '[[reduce]]\nname="a"\nof="b"\nby="groups"\n[[reduce]]\nname="b"\nof="a"\nby="groups"\n', "waits for"),
        (HEAD + 'of = "x"\n', r"line 4, train.of: training builds"),
    ],
)
def test_errors_name_the_line_and_the_key(text, said):
    with pytest.raises(UsageError, match=said) as caught:
        Recipe.parse(text, "r.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"), [("data = \n", "is not TOML: .*line 1"), ("a = " + "[" * 9_000, "TOML|deeply")]
)
def test_a_file_that_is_no_toml_is_refused_as_a_file(text, said, tmp_path):
    (tmp_path / "r.toml").write_text(text)
    with pytest.raises(FileRefused, match=said) as caught:
        read_recipe(tmp_path / "r.toml")
    assert str(caught.value).count("r.toml") == 1


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_recipes_that_come_with_it_can_be_read(name):
    assert Recipe.parse(example(name), name).stages


def test_every_option_shown_in_the_commented_recipe_can_be_taken():
    lines = example("new").splitlines()
    shown = [line for line in lines if line.startswith("#") and line[1:2] not in ("", " ")]
    assert len(shown) > 15
    # A network of one's own stands in place of training, and a data path must not be there for embedded data.
    other = ("#network", "#normalise", "#data_path")
    taken = [line[1:] if line in shown and not line.startswith(other) else line for line in lines]
    recipe = Recipe.parse("\n".join(taken).replace('by = "groups"', 'by = "genetic:50"'), "new")
    options = {key for stage in recipe.stages for key in stage.options}
    assert {"preset", "optimiser", "clip", "penalties", "plan", "price", "adjust", "leaks", "precision"} <= options


def test_a_file_is_read_with_its_name_in_errors(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text("\ufeff" + PLAIN, "utf-8")
    assert read_recipe(file) == Recipe.parse(PLAIN)
    file.write_text("data = 1\n")
    with pytest.raises(UsageError, match="mine.toml, line 1, data"):
        read_recipe(file)
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FileRefused, match="is not text"):
        read_recipe(file)
    file.write_bytes(b"#" * (1 << 21))
    with pytest.raises(FileRefused, match="too many"):
        read_recipe(file)
    with pytest.raises(FileRefused, match="no such file"):
        read_recipe(tmp_path / "none.toml")


KEYS = st.text("abcdefgh", min_size=1, max_size=4)
VALUES = st.one_of(
    st.integers(0, 99).map(str),
    st.text(st.characters(codec="ascii", exclude_characters='"\\\x7f', min_codepoint=32), max_size=8).map(
        '"{}"'.format
    ),
    st.text('ab#]"\n', max_size=6).map(lambda text: "'''" + text + "'''"),
    st.lists(st.sampled_from(["1", '"]"', "'#'", "[\n2, # ] }\n]"]), max_size=3).map(
        lambda items: "[\n" + ",\n".join(items) + "\n]"
    ),
    st.just('{ a = 1, b = "}" }'),
)


@given(st.lists(st.tuples(KEYS, VALUES), unique_by=lambda item: item[0], max_size=4), st.data())
def test_lines_of_keys_are_found_whatever_the_values_hold(top, data):
    """Every key is looked up by its line: it stands at the beginning of that line, and nothing is missed."""
    tables = data.draw(st.lists(st.lists(st.tuples(KEYS, VALUES), unique_by=lambda i: i[0], max_size=3), max_size=3))
    text = "".join(f"{key} = {value} # note\n" for key, value in top)
    for table in tables:
        text += "\n  [[zz]]\n" + "".join(f"{key} = {value}\n" for key, value in table)
    tomllib.loads(text)  # what is looked through is TOML
    found = key_lines(text)
    lines = text.split("\n")
    expected = {(key,) for key, _ in top} | {("zz", n, key) for n, table in enumerate(tables) for key, _ in table}
    expected |= {("zz", n) for n in range(len(tables))} | ({("zz",)} if tables else set())
    assert set(found) == expected
    for position, line in found.items():
        start = "  [[zz]]" if isinstance(position[-1], int) or position == ("zz",) else f"{position[-1]} = "
        assert lines[line - 1].startswith(start)


def test_keys_with_escapes_have_lines():
    assert key_lines('"\\U0001F600\\t" = 1\n') == {("\U0001f600\t",): 1}
    with pytest.raises(UsageError, match="line 1, 😀: unknown key"):
        Recipe.parse('"\\U0001F600" = 1\ndata = "digits"\n', "r.toml")


def test_dotted_and_quoted_keys_have_lines():
    assert key_lines('[a.b]\n"c d".e = 1\n[[a.f]]\nx = 1\n[a.f.g]\ny = 2\n') == {
        ("a", "b"): 1,
        ("a", "b", "c d", "e"): 2,
        ("a", "f"): 3,
        ("a", "f", 0): 3,
        ("a", "f", 0, "x"): 4,
        ("a", "f", 0, "g"): 5,
        ("a", "f", 0, "g", "y"): 6,
    }


@pytest.mark.parametrize("name", ["digits", "fashion-mnist", "cifar10"])
def test_the_demonstrations_do_what_a_newcomer_is_promised(name):
    recipe = Recipe.parse(example(name))
    assert recipe.data == name
    kinds = [stage.kind for stage in recipe.stages]
    assert kinds == ["train", "grade", "reduce", "spike"]
    cut, spiking = (stage.options for stage in recipe.stages[2:])
    assert cut["by"].startswith("error")
    assert "recover" not in cut  # nothing is trained after the first stage
    assert spiking["within"] == 1.0  # settings are chosen on training rows
    assert "test_rows" not in spiking  # all rows judge, as those of the other stages


def test_an_unknown_one_is_named():
    with pytest.raises(UnknownName, match="digits"):
        example("digit")
    assert set(EXAMPLES) == {"new", "digits", "fashion-mnist", "cifar10"}
