from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from tests.local.apiserver.caller import Caller

from kubewright.local.apiserver import ServerOptions, serve


@pytest.fixture
async def call() -> AsyncIterator[Caller]:
    async with serve(ServerOptions(listening=False)) as running:
        yield Caller(running)
