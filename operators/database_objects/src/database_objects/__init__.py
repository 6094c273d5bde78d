"""What operators of databases have in common: passwords, claims, backups, and rules of fields.

The objects are as pure functions build them; `ensure_object` is for what is made once.
"""

from database_objects.backups import (
    BackupRecord,
    build_backup_schedule,
    build_job_template,
    has_ended,
    read_jobs,
)
from database_objects.credentials import ensure_object, generate_password
from database_objects.rules import QUANTITY, grow, keep, refuse_words
from database_objects.volumes import build_claim, is_smaller

__all__ = [
    "QUANTITY",
    "BackupRecord",
    "build_backup_schedule",
    "build_claim",
    "build_job_template",
    "ensure_object",
    "generate_password",
    "grow",
    "has_ended",
    "is_smaller",
    "keep",
    "read_jobs",
    "refuse_words",
]
