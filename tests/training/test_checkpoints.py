from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import weightsmith as ws
from weightsmith.core.errors import FileRefused, UsageError
from weightsmith.core.journal import Journal, read_journal
from weightsmith.core.records import digest_of
from weightsmith.networks.card import Card
from weightsmith.networks.files import read_card
from weightsmith.networks.sealed import write_sealed
from weightsmith.networks.weights import open_weights
from weightsmith.training.checkpoints import Checkpoints, TrainingState
from weightsmith.training.run import EpochRow
from weightsmith.training.watching import Watch

CALL = {"settings": {"seed": 0}}
TENSORS = {
    "network/weight": torch.linspace(0, 1, 6).view(2, 3),
    "network/half": torch.tensor([1.5, 2.5], dtype=torch.bfloat16),
    "network/mask": torch.ones(2, 2, dtype=torch.uint8),  # would pass for a quantised weight in a network file
    "network/mask_scale": torch.tensor([3.0]),
    "network/flag": torch.tensor([True, False]),
    "optimiser/step": torch.tensor(7.0),
    "optimiser/exp_avg": torch.full((4,), 1e-30, dtype=torch.float64),
}


def state(epochs: int) -> TrainingState:
    rows = tuple(EpochRow(e, 5, 0.1, 1 / e, 0.5, extra={"pi": 3.141592653589793}) for e in range(1, epochs + 1))
    watch = Watch(best=0.1, best_epoch=1, waited=2, fired=3)
    probes = tuple({"probes": [e], "order": ["a"], "readings": {"a": [{"uses": e}]}} for e in range(1, epochs + 1))
    return TrainingState(rows, watch, Watch(), 0.25, 1, False, probes)


def written(folder: Path, epochs: int = 2, call: dict = CALL) -> None:
    checkpoints = Checkpoints(folder, call)
    for epoch in range(1, epochs + 1):
        checkpoints.write(TENSORS, state(epoch), 0.5 * epoch)
    checkpoints.close()


def read(folder: Path, call: dict = CALL) -> tuple[dict, TrainingState] | None:
    with closing(Checkpoints(folder, call)) as checkpoints:
        return checkpoints.read()


def test_what_was_written_reads_back_exactly(tmp_path):
    written(tmp_path)
    found = read(tmp_path)
    assert found is not None
    tensors, facts = found
    assert facts == state(2)
    assert set(tensors) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert tensors[name].dtype == tensor.dtype
        assert tensors[name].shape == tensor.shape
        assert torch.equal(tensors[name], tensor), name


def test_tensors_stay_as_they_were_when_the_file_is_written_anew(tmp_path):
    written(tmp_path)
    with closing(Checkpoints(tmp_path, CALL)) as checkpoints:
        found = checkpoints.read()
        assert found is not None
        checkpoints.write({name: torch.zeros_like(t) for name, t in TENSORS.items()}, state(3), 1.0)
    assert all(torch.equal(found[0][name], tensor) for name, tensor in TENSORS.items())


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs /proc")
def test_no_tensor_holds_on_to_the_file(tmp_path):
    """Where files in use cannot be replaced (Windows), the next epoch could not be written."""
    written(tmp_path)
    found = read(tmp_path)
    assert found is not None
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()


def test_the_journal_has_a_line_per_epoch_with_its_duration(tmp_path):
    written(tmp_path)
    journal = read_journal(tmp_path / "journal.jsonl")
    assert journal.call == CALL
    told = zip(state(2).rows, state(2).probes, strict=True)
    assert list(journal.values.values()) == [{**row.to_dict(), "probes": probes} for row, probes in told]
    assert list(journal.values) == ["epoch 1", "epoch 2"]
    assert journal.seconds == {"epoch 1": 0.5, "epoch 2": 1.0}


def test_an_epoch_that_the_journal_has_already_is_not_written_twice(tmp_path):
    """Killed between the journal's line and the checkpoint, a run does the epoch again."""
    written(tmp_path)
    before = (tmp_path / "journal.jsonl").read_bytes()
    (tmp_path / "checkpoint.safetensors").unlink()
    written(tmp_path)
    assert (tmp_path / "journal.jsonl").read_bytes() == before
    assert read(tmp_path) is not None


def test_what_an_epoch_writes_does_not_grow_with_the_epochs_before_it(tmp_path):
    sizes = []
    with closing(Checkpoints(tmp_path, CALL)) as checkpoints:
        for epoch in range(1, 41):
            checkpoints.write(TENSORS, state(epoch), 0.5)
            sizes.append([(tmp_path / name).stat().st_size for name in ("checkpoint.safetensors", "journal.jsonl")])
    (early, first), (late, last) = sizes[9], sizes[-1]
    assert late == pytest.approx(early, abs=16)  # a digit more, and padding
    assert last - sizes[-2][1] == pytest.approx(first - sizes[8][1], abs=32)


def test_an_epoch_done_again_that_measures_something_else_counts_as_it_was_done_last(tmp_path):
    """A hook may return a time, say; the journal keeps the line that a kill left without a checkpoint."""
    written(tmp_path)
    other = replace(state(3), rows=(*state(2).rows, replace(state(3).rows[-1], extra={"pi": 4.0})))
    with closing(Checkpoints(tmp_path, CALL)) as checkpoints:
        checkpoints.write(TENSORS, state(3), 0.5)
    with closing(Checkpoints(tmp_path, CALL)) as checkpoints:
        checkpoints.write(TENSORS, other, 0.5)
    assert read(tmp_path)[1] == other
    later = replace(state(4), rows=(*other.rows, state(4).rows[-1]))
    with closing(Checkpoints(tmp_path, CALL)) as checkpoints:
        checkpoints.read()
        checkpoints.write(TENSORS, later, 0.5)
    assert read(tmp_path)[1] == later


def test_a_run_may_begin_with_epochs_of_another(tmp_path):
    """A run that is rewound has rows that its own journal never had."""
    with closing(Checkpoints(tmp_path, CALL)) as checkpoints:
        for epoch in (4, 5):
            checkpoints.write(TENSORS, replace(state(epoch), probes=state(epoch).probes[3:]), 0.5)
    assert list(read_journal(tmp_path / "journal.jsonl").values) == ["epoch 4", "epoch 5"]
    assert read(tmp_path)[1] == replace(state(5), probes=state(5).probes[3:])


@pytest.mark.parametrize("probed", [True, False])
def test_a_checkpoint_that_holds_all_epochs_itself_is_read_and_gone_on_with(tmp_path, probed):
    """As they were written at first: rows and all that was probed in the checkpoint, plain rows in the journal."""
    blob = {"probes": [1, 2, 3], "order": ["a"], "readings": {"a": [{"uses": e} for e in (1, 2, 3)]}}
    facts = {**state(3).to_dict(), "probes": blob if probed else None}
    with Journal(tmp_path / "journal.jsonl", CALL) as journal:
        for row in state(4).rows:  # killed before the checkpoint of the fourth epoch
            journal.append(f"epoch {row.epoch}", row.to_dict(), 1.0)
    content = {"call": digest_of(json.dumps(CALL, sort_keys=True)), "standing": facts}
    write_sealed(tmp_path / "checkpoint.safetensors", TENSORS, json.dumps(content))
    with closing(Checkpoints(tmp_path, CALL)) as checkpoints:
        found = checkpoints.read()[1]
        assert found == replace(state(3), probes=(blob,) if probed else ())
        later = replace(state(4), probes=(*found.probes, {"probes": [4]}) if probed else ())
        checkpoints.write(TENSORS, later, 1.0)
    assert read(tmp_path)[1] == later


def test_nothing_is_read_or_written_without_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    checkpoints = Checkpoints(None, CALL)
    assert checkpoints.read() is None
    checkpoints.write(TENSORS, state(1), 1.0)
    checkpoints.close()
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_has_no_state(tmp_path):
    assert read(tmp_path / "a" / "b") is None
    assert (tmp_path / "a" / "b" / "journal.jsonl").exists()


def test_another_call_is_refused_and_nothing_is_touched(tmp_path):
    written(tmp_path)
    before = (tmp_path / "checkpoint.safetensors").read_bytes()
    with pytest.raises(UsageError, match=r"belongs to another call \(settings\.seed is 0 in the journal and 1"):
        Checkpoints(tmp_path, {"settings": {"seed": 1}})
    assert (tmp_path / "checkpoint.safetensors").read_bytes() == before


def test_a_checkpoint_that_the_journal_does_not_tell_of_is_of_another_call(tmp_path):
    written(tmp_path)
    (tmp_path / "journal.jsonl").unlink()
    other = {"settings": {"seed": 1}}
    assert read(tmp_path, other) is None
    # Nor does it help that the journal has an epoch of that number: it must be the same epoch.
    with Journal(tmp_path / "journal.jsonl", other) as journal:
        for epoch in (1, 2):
            journal.append(f"epoch {epoch}", EpochRow(epoch, 5, 0.1, 9.0, 0.5).to_dict(), 1.0)
    assert read(tmp_path, other) is None


def test_the_folder_is_held_until_it_is_closed(tmp_path):
    checkpoints = Checkpoints(tmp_path, CALL)
    with pytest.raises(UsageError):
        Checkpoints(tmp_path, CALL)
    checkpoints.close()
    Checkpoints(tmp_path, CALL).close()


def flipped(content: bytes, offset: int) -> bytes:
    changed = bytearray(content)
    changed[offset] ^= 1
    return bytes(changed)


def test_one_flipped_bit_anywhere_is_refused(tmp_path):
    written(tmp_path)
    file = tmp_path / "checkpoint.safetensors"
    sound = file.read_bytes()
    for offset in range(8, len(sound), len(sound) // 23):
        file.write_bytes(flipped(sound, offset))
        with pytest.raises(FileRefused, match="checkpoint.safetensors"):
            read(tmp_path)


def test_files_that_are_no_checkpoints_of_this_version_are_refused(tmp_path):
    from safetensors.torch import save_file

    written(tmp_path)
    file = tmp_path / "checkpoint.safetensors"
    save_file({"a": torch.ones(2)}, file)
    with pytest.raises(FileRefused, match="without the seal"):
        read(tmp_path)
    for content in (json.dumps({"rows": [], "moon": 1}), "no JSON", "[]"):
        write_sealed(file, {"a": torch.ones(2)}, content)
        with pytest.raises(FileRefused, match="was written by another version of weightsmith"):
            read(tmp_path)


@pytest.mark.parametrize("inside", [True, False], ids=["in a folder", "in memory"])
def test_kept_weights_come_back_exactly(tmp_path, inside):
    card = Card(input_shape=(3,), classes=("a", "b"))
    checkpoints = Checkpoints(tmp_path if inside else None, CALL)
    assert not checkpoints.has(2)
    checkpoints.keep(2, dict(TENSORS), card, {})
    checkpoints.close()
    assert checkpoints.has(2)
    assert not checkpoints.has(1)
    found = checkpoints.kept(2)
    assert set(found) == set(TENSORS)
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype
        assert torch.equal(found[name], tensor), name
    files = [file.name for file in tmp_path.iterdir() if file.suffix == ".safetensors"]
    assert files == (["epoch-0002.safetensors"] if inside else [])
    if inside:
        assert read_card(open_weights(tmp_path / files[0])) == card


def test_a_standing_reads_back_exactly():
    assert TrainingState.from_json(state(3).to_json()) == state(3)
    assert TrainingState.from_json(TrainingState().to_json()) == TrainingState()


@pytest.mark.parametrize("schedule", ["0.05", "power:0.1,s=2,per=epoch", "plateau:0.1,patience=1,monitor=train_loss"])
def test_a_finished_run_gets_more_epochs_and_ends_as_if_it_had_had_them_from_the_start(schedule, tmp_path):
    digits = ws.data.load("digits")
    options = {"optimiser": "momentum", "schedule": schedule, "stop": "best:monitor=train_loss"}
    ws.train("mlp:6", digits, epochs=2, out=tmp_path / "a", **options)
    grown = ws.train("mlp:6", digits, epochs=4, out=tmp_path / "a", **options)
    whole = ws.train("mlp:6", digits, epochs=4, out=tmp_path / "b", **options)
    assert grown.record == whole.record
    for name in ("network.safetensors", "record.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_a_run_whose_rates_depend_on_its_length_is_not_extended(tmp_path):
    digits = ws.data.load("digits")
    ws.train("mlp:6", digits, schedule="cosine:0.1", epochs=1, out=tmp_path)
    before = (tmp_path / "journal.jsonl").read_bytes()
    with pytest.raises(UsageError, match=r"rates of cosine:0.1 depend on the length"):
        ws.train("mlp:6", digits, schedule="cosine:0.1", epochs=2, out=tmp_path)
    with pytest.raises(UsageError, match="belongs to another call"):
        ws.train("mlp:6", digits, schedule="cosine:0.2", epochs=2, out=tmp_path)
    assert (tmp_path / "journal.jsonl").read_bytes() == before
