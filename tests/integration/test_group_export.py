"""What `kafkalog groups --export csv` writes, `kafka-consumer-groups.sh --reset-offsets --from-file` takes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from tests.support import serving

if TYPE_CHECKING:
    from tests.integration.tool_runner import ToolRunner

pytestmark = [pytest.mark.java, pytest.mark.slow]

DEMO = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
TOOL = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"


def test_kafkas_tool_takes_the_export(tools: ToolRunner, tmp_path: Path) -> None:
    exported = CliRunner().invoke(cli, ["groups", "--group", "billing", "--export", "csv", str(DEMO)]).stdout
    assert exported == "orders,0,17\norders,1,23\n"
    file = tmp_path / "offsets.csv"
    file.write_text(exported.replace(",17", ",20"))
    with serving.serving(DEMO) as broker:
        address = f"--bootstrap-server {serving.address(broker)}"
        done = tools.run("4.3.1", TOOL, f"{address} --reset-offsets --group billing --execute --from-file {file}", "")
        assert "Exception" not in done.out + done.err
        assert re.search(r"billing +orders +0 +20\s", done.out)
        described = tools.run("4.3.1", TOOL, f"{address} --describe --group billing", "")
    assert re.search(r"orders +0 +20 +92 +72 ", described.out)
    assert re.search(r"orders +1 +23 +108 +85 ", described.out)
