"""Settings by the cluster metadata log, against what the same brokers said through their Admin API."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.kafka.sim.settings import read_settings

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.kafka.rules.setting_table import Value

pytestmark = pytest.mark.corpus
TOPIC = "TOPIC:"


def test_topics_are_configured_as_the_broker_said(corpus: Path) -> None:
    compared = 0
    for sheet in sorted(corpus.glob("modern/*/cluster_state.json")):
        log_dir = sheet.parent / "logdir"
        if not (log_dir / "__cluster_metadata-0").is_dir():
            continue
        case = json.loads((sheet.parent / "case.json").read_text())
        settings = read_settings(SettingsRequest(), parse_release(case["kafka"]), str(log_dir))
        configs = json.loads(sheet.read_text()).get("configs", {})
        for name, said in configs.items():
            if name.startswith(TOPIC):
                ours = settings.for_topic(name.removeprefix(TOPIC))
                known = {each.name: _text(each.value) for each in ours.settings if each.name in said}
                assert known == {each: said[each] for each in known}, (sheet.parent.name, name)
                compared += len(known)
    assert compared > 0


def _text(value: Value) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
