"""Every supported option does something: the code that serves reads the setting it feeds."""

import re
from pathlib import Path

from generated.options import OPTIONS

ROOT = Path(__file__).parent.parent
READ_OTHERWISE = {
    "escape": "while the command line is read",
}


def test_settings_are_read() -> None:
    folders = ("handlers", "engine", "generated/requests")
    files = [f for folder in folders for f in (ROOT / folder).rglob("*.py")]
    code = "".join(f.read_text() for f in [*files, ROOT / "generated/routes.py"])
    read = set(re.findall(r"settings\.(\w+)", code))
    fed = {o.setting for o in OPTIONS if o.status == "supported" and o.setting}
    assert fed - read == set(READ_OTHERWISE)
