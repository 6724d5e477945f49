"""What quotas are measured by: a rate over a sliding window, and a bucket of tokens. Times are arguments."""

from __future__ import annotations

from typing import Final

from kafkalog_core.structs import Struct

__all__ = ["MAX_THROTTLE_MS", "QuotaSamples", "RateWindow", "TokenBucket"]

MAX_THROTTLE_MS: Final = 2**31 - 1


class QuotaSamples(Struct, frozen=True):
    """What a rate is measured in (`ClientQuotaManagerConfig`), with Kafka's settings in brackets.

    Those for controller_mutation_rate have the same names with `controller.` before them.

    Args:
        count: samples that are kept [quota.window.num].
        size_ms: the time of a sample, in milliseconds [quota.window.size.seconds].
    """

    count: int = 11
    size_ms: int = 1000


class _Sample(Struct):
    start_ms: int
    last_ms: int
    value: float = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class RateWindow:
    """The rate of some value a second over all whole samples and the current one (`Rate`, `SampledStat`)."""

    def __init__(self, kept: QuotaSamples) -> None:
        """Begin with nothing recorded."""
        self._kept = kept
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Add a value; a negative one takes back what was recorded."""
        if not self._samples:
            self._samples.append(_Sample(now_ms, now_ms))
        if now_ms - self._samples[self._current].start_ms >= self._kept.size_ms:
            self._advance(now_ms)
        sample = self._samples[self._current]
        sample.value += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> None:
        """Begin a sample. One more than the window has is kept: it overlaps the window (`SampledStat.advance`)."""
        self._current = (self._current + 1) % (self._kept.count + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms, now_ms))
        else:
            self._samples[self._current].reset(now_ms)

    def span_ms(self, now_ms: int) -> int:
        """Return the time that the rate is measured over: at least all samples but one (`Rate.windowSize`)."""
        kept = self._kept
        for sample in self._samples:
            # Reset where it is, as `SampledStat.purgeObsoleteSamples`: its slot is used again.
            if now_ms - sample.last_ms >= kept.count * kept.size_ms:
                sample.reset(now_ms)
        elapsed_ms = now_ms - min((each.start_ms for each in self._samples), default=now_ms)
        # A client that has just begun is measured over the whole window, so that a first burst is not a high rate.
        missing = kept.count - 1 - elapsed_ms // kept.size_ms
        return max(1, elapsed_ms + max(0, missing) * kept.size_ms)

    def rate(self, now_ms: int) -> float:
        """Return the rate a second."""
        span_ms = self.span_ms(now_ms)
        return sum(each.value for each in self._samples) / (span_ms / 1000)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return after which time without a further value the rate is back at a bound (`QuotaUtils.throttleTime`)."""
        rate = self.rate(now_ms)
        if rate <= bound:
            return 0
        return min(MAX_THROTTLE_MS, int((rate - bound) / bound * self.span_ms(now_ms) + 0.5))


class TokenBucket:
    """Tokens that come back at the rate of the quota, up to those of all samples (KIP-599, `TokenBucket`)."""

    def __init__(self, kept: QuotaSamples) -> None:
        """Begin with a full bucket."""
        self._seconds = kept.count * kept.size_ms / 1000
        self._tokens = float("inf")
        self._last_ms = 0

    def tokens(self, bound: float, now_ms: int) -> float:
        """Return the tokens that there are; below 0: more were taken. bound: tokens that come back in a second."""
        self._tokens = min(self._seconds * bound, self._tokens + bound * (now_ms - self._last_ms) / 1000)
        self._last_ms = now_ms
        return self._tokens

    def take(self, value: float, bound: float, now_ms: int) -> None:
        """Take tokens, even if there are fewer."""
        self._tokens = self.tokens(bound, now_ms) - value

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """Return how long it takes until no token is missing (`ControllerMutationQuotaManager.throttleTimeMs`)."""
        return min(MAX_THROTTLE_MS, max(0, int(-self.tokens(bound, now_ms) / bound * 1000 + 0.5)))
