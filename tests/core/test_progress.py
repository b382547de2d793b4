from __future__ import annotations

from weightsmith.core.progress import for_stage


def test_a_stage_reports_under_its_name():
    heard = []
    report = for_stage(lambda *each: heard.append(each), "testing")
    report(1, 2)
    report(2, 2)
    assert heard == [("testing", 1, 2), ("testing", 2, 2)]


def test_nobody_listens():
    assert for_stage(None, "testing") is None
