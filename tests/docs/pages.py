"""The pages of the manual as programs: their Python blocks, in order."""

from __future__ import annotations

import re
from pathlib import Path
from types import ModuleType
from typing import Any

DOCS = Path(__file__).parents[2] / "docs"


def read_program(page: str) -> str:
    """Return the Python blocks of a page as one program; its lines are those of the page."""
    text = (DOCS / page).read_text()
    lines = text.splitlines()
    kept = [""] * len(lines)
    for block in re.finditer(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE):
        first = text.count("\n", 0, block.start(1))
        body = block[1].splitlines()
        kept[first : first + len(body)] = body
    return "\n".join(kept) + "\n"


def run_page(page: str) -> Any:
    """Run a page and return the module that it makes."""
    program = ModuleType(page.removesuffix(".md").replace("-", "_"))
    code = compile(read_program(page), str(DOCS / page), "exec")
    exec(code, vars(program))
    return program
