"""Whether one of two arms is worse by more than is allowed, asked after each pair of turns, without a time to end."""

import math
from dataclasses import dataclass, field

BETS = (0.25, 0.5, 0.75, 1.0)


@dataclass(slots=True, kw_only=True)
class HarmTest:
    """Bets on pairs in which the one was worse by more than allowed; ``alpha`` is how often it is wrong at most.

    Where the one is not worse by more than allowed, it is so in half of the pairs at most, whatever came before. Who
    then bets a share b of what he has on "worse" at even odds does not win on average, nor does a mean of such players:
    what they have is a supermartingale, and ever has 1 / alpha times of what it began with in a share alpha of
    experiments at most (Ville 1939). So it can be looked at after each pair, for as long as the experiment lasts, and
    nothing is assumed of the noise but that it favours neither.
    Sources: Shafer, J. R. Statist. Soc. A 184 (2021) 407-431; Waudby-Smith & Ramdas, J. R. Statist. Soc. B 86 (2024)
    1-27; Ville, Étude critique de la notion de collectif, 1939.
    """

    alpha: float
    is_shown: bool = field(default=False, init=False)  # that was once is never taken back by what comes later
    _wealth: list[float] = field(default_factory=lambda: [1.0] * len(BETS), init=False)

    def add(self, *, is_worse: bool) -> None:
        """One more pair."""
        sign = 1.0 if is_worse else -1.0
        self._wealth = [wealth * (1 + sign * bet) for wealth, bet in zip(self._wealth, BETS, strict=True)]
        self.is_shown = self.is_shown or self.evidence >= 1 / self.alpha

    @property
    def evidence(self) -> float:
        """An e-value: what the players have on average, of 1 at the beginning."""
        return math.fsum(self._wealth) / len(self._wealth)
