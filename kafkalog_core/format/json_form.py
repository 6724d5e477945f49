r"""JSON as all output has it: no spaces, letters as they are, and no control character that a terminal would obey.

`json.dumps(..., ensure_ascii=False)` escapes `"`, `\` and what is below U+0020: `\" \\ \n \r \t \b \f`, `\u00xx` in
lower case for the rest. U+007F to U+009F, among them the one-character form of ESC [, become `\u00xx` too.
"""

from __future__ import annotations

import json
import re
from typing import Final

__all__ = ["json_text"]

_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_CONTROLS: Final = re.compile("[\x7f-\x9f]")


def json_text(value: object) -> str:
    """The value as JSON."""
    return _CONTROLS.sub(_escaped, _ENCODER.encode(value))  # outside of texts JSON has none of these


def _escaped(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"
