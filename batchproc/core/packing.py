"""Which claimed jobs are sent to a worker together.

A job of an ordinary kind has a slot for itself. Jobs of kinds with a bundle size share slots, those of one lane, of
whatever tenants and kinds; none is in a bundle of more jobs than its own kind allows, so the smallest size governs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from batchproc.core.job import Claim, KindSpec, Lane


def bundled(
    claims: Sequence[Claim], specs: Mapping[str, KindSpec], slots: int, *, bulk: int | None = None
) -> list[list[Claim]]:
    """The claims as bundles for so many free slots, interactive ones first.

    They are spread over all of the slots, so that few jobs are run at once rather than one after the other. More
    bundles than slots are made only if the jobs cannot be in fewer.

    Args:
        bulk: how many of the slots the bulk lane may take; None for all.
    """
    # The most demanding ones together: taking one of them into another bundle would make that one smaller, too.
    ordered = sorted(claims, key=lambda claim: specs[claim.kind].bundle)
    urgent = [claim for claim in ordered if claim.lane != Lane.BULK]
    patient = [claim for claim in ordered if claim.lane == Lane.BULK]
    bundles = _spread(urgent, specs, slots - len(_spread(patient, specs, 1)))
    left = slots - len(bundles)
    return bundles + _spread(patient, specs, left if bulk is None else min(left, bulk))


def _spread(claims: Sequence[Claim], specs: Mapping[str, KindSpec], slots: int) -> list[list[Claim]]:
    """Claims that are sorted by their bundle size, over so many slots if they can be in so few."""
    bundles: list[list[Claim]] = []
    begin = 0
    while begin < len(claims):
        share = -(-(len(claims) - begin) // max(1, slots - len(bundles)))
        end = begin + min(max(1, specs[claims[begin].kind].bundle), share)
        bundles.append(list(claims[begin:end]))
        begin = end
    return bundles
