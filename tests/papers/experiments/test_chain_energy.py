from __future__ import annotations

from weightsmith.papers.experiments.chain_energy import EXPERIMENT


def planted(cheaper, loss):
    def row(seed, keep):
        energy = {"energy_float32": keep, "energy_int8": keep / 20}
        spiking = {
            "spiking_float32": keep * cheaper * (1 + 0.01 * seed * keep),
            "spiking_int8": keep / 10 * (1 + 0.01 * seed),
        }
        return {"accuracy": 0.9, "spiking_accuracy": 0.9 - loss * (1 - keep) + 0.001 * seed * keep, **energy, **spiking}

    return row


def test_energies_and_losses_decide(verdicts):
    found = verdicts(EXPERIMENT, planted(0.5, 0.001), seeds=range(5))
    assert found == {"float": "holds", "int8": "does not hold", "cut-first": "holds"}
    dear = verdicts(EXPERIMENT, planted(2.0, 0.1), seeds=range(5))
    assert (dear["float"], dear["cut-first"]) == ("does not hold", "in part")
