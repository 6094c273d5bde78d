"""What an autoscaler recommended and did: against flapping, and for rates of change.

Kept in memory only. After a restart the number of replicas that is found counts as the first
recommendation, so that nothing is scaled down before the window has passed once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

import msgspec

from kubewright.local.controllers.horizontal_pod_autoscaler.behavior import (
    DOWNSCALE_WINDOW,
    Behavior,
)


class Moment(msgspec.Struct, frozen=True):
    """A number of replicas, or a change of it, and when it was."""

    replicas: int
    time: datetime


class History(msgspec.Struct):
    """The past of one autoscaler, as far as it still counts."""

    recommendations: list[Moment] = []
    added: list[Moment] = []
    removed: list[Moment] = []

    def begin(self, current: int, now: datetime) -> None:
        """Take the replicas that are found for the first recommendation."""
        if not self.recommendations:
            self.recommendations.append(Moment(current, now))

    def stabilize_descent(self, wish: int, now: datetime) -> int:
        """Note a recommendation; return the highest of the last five minutes."""
        kept = [m for m in self.recommendations if m.time >= now - DOWNSCALE_WINDOW]
        self.recommendations = [*kept, Moment(wish, now)]
        return max(moment.replicas for moment in self.recommendations)

    def stabilize(self, behavior: Behavior, current: int, wish: int, now: datetime) -> int:
        """Note a recommendation; return the one within the windows that changes least.

        Up goes only what all recommendations of the window for scaling up ask for, down only what
        all of the other window do.
        """
        up, down = behavior.up.window, behavior.down.window
        low = min([wish, *_since(self.recommendations, up, now)])
        high = max([wish, *_since(self.recommendations, down, now)])
        oldest = now - max(up, down)
        kept = [moment for moment in self.recommendations if moment.time >= oldest]
        self.recommendations = [*kept, Moment(wish, now)]
        return min(max(current, low), high)

    def note_scaling(self, behavior: Behavior, before: int, after: int, now: datetime) -> None:
        """Note a change that was carried out; older ones than policies look at are forgotten."""
        moment = Moment(abs(after - before), now)
        if after > before:
            oldest = now - behavior.up.longest_period
            self.added = [*(m for m in self.added if m.time >= oldest), moment]
        else:
            oldest = now - behavior.down.longest_period
            self.removed = [*(m for m in self.removed if m.time >= oldest), moment]

    def replicas_before(self, current: int, seconds: int, now: datetime) -> int:
        """Return the replicas that there were at the begin of a period."""
        period = timedelta(seconds=seconds)
        return (
            current - sum(_since(self.added, period, now)) + sum(_since(self.removed, period, now))
        )


def _since(moments: Iterable[Moment], period: timedelta, now: datetime) -> list[int]:
    return [moment.replicas for moment in moments if moment.time > now - period]
