"""What operators of databases have in common: passwords, claims, backups, and rules of fields.

The objects are as pure functions build them; `ensure_object` is for what is made once.
"""

from database_objects.backups import (
    BackupRecord,
    build_backup_schedule,
    build_job_template,
    build_script_container,
    has_ended,
    read_jobs,
)
from database_objects.credentials import ensure_object, generate_password
from database_objects.instances import PRIMARY, REPLICA, is_rolled_out, label_instances
from database_objects.rules import QUANTITY, grow, keep, refuse_words
from database_objects.volumes import build_claim, grow_volumes, is_smaller

__all__ = [
    "PRIMARY",
    "QUANTITY",
    "REPLICA",
    "BackupRecord",
    "build_backup_schedule",
    "build_claim",
    "build_job_template",
    "build_script_container",
    "ensure_object",
    "generate_password",
    "grow",
    "grow_volumes",
    "has_ended",
    "is_rolled_out",
    "is_smaller",
    "keep",
    "label_instances",
    "read_jobs",
    "refuse_words",
]
