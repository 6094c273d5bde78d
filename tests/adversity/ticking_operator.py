"""An operator for the tests of two replicas: it writes, under its own name, as fast as it can."""

from __future__ import annotations

import asyncio
import os
from itertools import count

from pydantic import BaseModel

from kubewright.api import builtin
from kubewright.api.custom_resource import CustomResource, Status
from kubewright.runtime import Context, Operator, Result


class TickerSpec(BaseModel):
    target: str = "target"


class Ticker(CustomResource[TickerSpec, Status], group="tickers.example.com", version="v1"):
    """Has a ConfigMap written for as long as its operator works."""


operator = Operator("ticking-operator", workers=2)


@operator.reconcile(Ticker)
async def tick(ticker: Ticker, ctx: Context) -> Result | None:
    key = ctx.request._replace(name=ticker.spec.target)
    for number in count():
        data = {"data": {"writer": os.environ["REPLICA"], "number": str(number)}}
        await ctx.patch(builtin.CONFIG_MAP, key, data)
        await asyncio.sleep(0.001)
    return None
