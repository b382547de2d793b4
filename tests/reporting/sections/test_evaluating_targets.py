from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import weightsmith as ws
from weightsmith.core.errors import UsageError
from weightsmith.reporting.describe import describe
from weightsmith.reporting.sections.evaluating_targets import residual_figure

X = torch.randn(50, 2, generator=torch.Generator().manual_seed(0))


def test_a_regression_is_told_with_its_errors_and_residuals():
    found = ws.evaluate(nn.Identity(), (X, X.numpy() * 1.5 + 0.2))
    section = describe(found, "net")
    assert section.chips[0][0] == "R²"
    errors = section["Errors"].to_rows()
    assert [row["value"] for row in errors] == ["0", "1"]
    assert errors[0]["RMSE"] == pytest.approx(found.values[0].rmse.value)
    drawn = section["Residuals of 0"]
    assert len(drawn.rows) == 50
    assert drawn.rows[0]["residual"] == pytest.approx(drawn.rows[0]["target"] - drawn.rows[0]["answer"])
    residual_figure(found.values[0])
    with pytest.raises(UsageError, match="--least-accuracy needs classes"):
        describe(found, "net", least_accuracy=90.0)


def test_answers_worse_than_the_mean_are_to_be_looked_at():
    section = describe(ws.evaluate(nn.Identity(), (X, -X.numpy())), "net")
    assert "worse than the mean of these rows (R² −" in section.look_at[0]
    assert "-" not in section.chips[0][1]


def test_labels_have_recall_precision_and_what_is_right_without_them():
    on = np.stack([X[:, 0].numpy() > 0, X[:, 1].numpy() > 0.5], 1)
    found = ws.evaluate(nn.Identity(), (X, on))
    section = describe(found, "net", least_accuracy=99.9)
    rows = section["Labels"].to_rows()
    assert (rows[0]["recall"], rows[0]["precision"], rows[0]["without it"]) == (1, 1, 1)
    called, negative = (X[:, 1] > 0).numpy(), ~on[:, 1]
    assert rows[1]["without it"] == pytest.approx(float((~called & negative).sum() / negative.sum()))
    assert "is below the required 99.9 %" in section.look_at[0]
    assert "have all 2 labels right" in section.lead
