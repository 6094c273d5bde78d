"""The CronJob controller: make a Job whenever a schedule is due."""

from kubewright.local.controllers.cronjob.controller import build_cronjob_controller

__all__ = ["build_cronjob_controller"]
