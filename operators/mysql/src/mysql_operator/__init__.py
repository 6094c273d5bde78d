"""An operator that runs MySQL servers.

`models` declares the kind. `server` and `backup` build what should exist (pure), `credentials`
makes passwords once, `operator` ties all to the runtime. `scripts` run in the pods, in the stock
image.
"""

from mysql_operator.models import MySQL, MySQLSpec, MySQLStatus
from mysql_operator.operator import operator

__all__ = ["MySQL", "MySQLSpec", "MySQLStatus", "operator"]
