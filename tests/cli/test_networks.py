from __future__ import annotations

import json

from weightsmith.networks import Architecture


def test_every_architecture_and_parameter_is_listed(run):
    answer = run("networks", "list")
    assert answer.code == 0
    report = json.loads(run("networks", "list", "--json").out)
    assert set(report) == set(Architecture.members)
    for name, member in Architecture.members.items():
        assert f"\n{name}  " in answer.out
        assert report[name]["parameters"] == member.table()
        assert all(row["name"] in answer.out for row in member.table())
