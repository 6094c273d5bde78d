from __future__ import annotations

import subprocess
import sys

import kubewright.cache
import kubewright.client


def test_every_public_name_is_there() -> None:
    for module in (kubewright.client, kubewright.cache):
        assert list(module.__all__) == sorted(module.__all__)
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def test_http_yaml_and_pydantic_are_loaded_only_when_they_are_used() -> None:
    code = (
        "import sys, kubewright.client, kubewright.cache\n"
        "loaded = {'httptools', 'yaml', 'pydantic'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
        "kubewright.client.HTTPTransport\n"
        "assert 'httptools' in sys.modules and 'aiohttp' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
