"""An operator that runs web applications, plain and with Dapr.

`models` declares the kinds, `deployment` and `component` build what should exist, `operator` ties
both to the runtime.
"""

from webapp_operator.models import Guestbook, MyApp, SimpleApp
from webapp_operator.operator import operator

__all__ = ["Guestbook", "MyApp", "SimpleApp", "operator"]
