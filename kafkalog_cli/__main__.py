"""`python -m kafkalog_cli`."""

from __future__ import annotations

from kafkalog_cli.main import main

main()
