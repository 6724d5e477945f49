"""Commands of kafkalog one after the other, in one process and with one session of Spark.

python -m tests.docs.one_session COMMANDS    a JSON array with the arguments of each; prints what each has printed
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

from kafkalog_cli.main import cli
from kafkalog_core.spark.session.session import SessionSettings, spark_session

_STANDARD_OUTPUT = 1


def _text_of(arguments: list[str]) -> str:
    """Run a command with a file as standard output, and return what is in it."""
    kept = os.dup(_STANDARD_OUTPUT)
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), _STANDARD_OUTPUT)
        try:
            cli.main(arguments, prog_name="kafkalog")
        except SystemExit:
            pass
        finally:
            sys.stdout.flush()
            os.dup2(kept, _STANDARD_OUTPUT)
            os.close(kept)
        file.seek(0)
        return file.read().decode("utf-8")


if __name__ == "__main__":
    with spark_session(SessionSettings(is_light=True)):
        texts = [_text_of(arguments) for arguments in json.loads(sys.argv[1])]
    sys.stdout.write(json.dumps(texts))
