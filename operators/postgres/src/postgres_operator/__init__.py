"""An operator that runs PostgreSQL databases.

`models` declares the kind. `instances`, `services`, `settings` and `backup` build what should exist
(pure), `credentials` makes what is made once, `operator` ties all to the
runtime. `scripts` run in the pods, in the stock image.
"""

from postgres_operator.models import Database, DatabaseSpec, DatabaseStatus
from postgres_operator.operator import operator

__all__ = ["Database", "DatabaseSpec", "DatabaseStatus", "operator"]
