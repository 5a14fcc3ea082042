"""Checks that a stage declared but could not make, said openly."""

from collections.abc import Mapping, Sequence

from alpha_pipeline.results import Check


def completed(checks: Sequence[Check], declared: Mapping[str, bool]) -> list[Check]:
    """The checks made, and a failing one for each that was declared and could not be computed.

    Args:
        checks: what the stage returned.
        declared: names, and whether a failure blocks.
    """
    made = {check.name for check in checks}
    return [
        *checks,
        *(
            Check(
                name=name,
                passed=False,
                figure=None,
                threshold=None,
                description="could not be computed, see the stage's other checks",
                blocking=blocking,
            )
            for name, blocking in declared.items()
            if name not in made
        ),
    ]
