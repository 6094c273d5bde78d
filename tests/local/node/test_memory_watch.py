from __future__ import annotations

import os
from pathlib import Path

from kubewright.local.node.memory_watch import list_tree, read_memory


def write_process(proc: Path, pid: int, kilobytes: int, children: str = "") -> None:
    task = proc / str(pid) / "task" / str(pid)
    task.mkdir(parents=True)
    (task / "children").write_text(children)
    lines = f"Name:\tx\nVmRSS:\t999 kB\nRssAnon:\t{kilobytes} kB\nRssFile:\t9 kB\nRssShmem:\t1 kB\n"
    (proc / str(pid) / "status").write_text(lines)


def test_counts_a_process_and_all_below_it(tmp_path: Path) -> None:
    write_process(tmp_path, 1, 10, "2 3")
    write_process(tmp_path, 2, 20, "4")
    write_process(tmp_path, 4, 30)
    # 3 has ended since.
    assert list(list_tree(1, proc=tmp_path)) == [1, 2, 4, 3]
    assert read_memory(1, proc=tmp_path) == (10 + 20 + 30 + 3) * 1024


def test_counts_this_process() -> None:
    assert read_memory(os.getpid()) > 1 << 20
