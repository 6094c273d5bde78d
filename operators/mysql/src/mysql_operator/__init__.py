"""An operator that runs MySQL servers.

`models` declares the kind MySQL, `server` and `backup` build what should exist for it (pure),
`credentials` makes passwords once, `operator` ties all to the runtime. `cluster_models`, `cluster`
and `cluster_operator` do the same for MySQLCluster. `scripts` run in the pods, in the stock image.
"""

import mysql_operator.cluster_operator  # noqa: F401  # it adds its kind to the operator
from mysql_operator.cluster_models import MySQLCluster, MySQLClusterSpec, MySQLClusterStatus
from mysql_operator.models import MySQL, MySQLSpec, MySQLStatus
from mysql_operator.operator import operator

__all__ = [
    "MySQL",
    "MySQLCluster",
    "MySQLClusterSpec",
    "MySQLClusterStatus",
    "MySQLSpec",
    "MySQLStatus",
    "operator",
]
