"""Covering sets: few combinations in which any two values that can meet do meet."""

import itertools
import random


def groups_of(combination, size):
    return set(itertools.combinations(sorted(combination.items()), size))


def holds(combination, group):
    return all(combination[name] == value for name, value in group)


def pairs_that_meet(axes, everything):
    mixed = random.Random(0).sample(everything, len(everything))  # so that most are met early
    return {pair
            for a, b in itertools.combinations(sorted(axes), 2)
            for pair in itertools.product(((a, x) for x in axes[a]), ((b, y) for y in axes[b]))
            if any(holds(c, pair) for c in mixed)}


def covering_set(axes, legal, at_least, seed=1, tries=40):
    """Legal combinations of `axes` (name -> values) that together hold every pair of values that
    any legal combination holds, and then as many groups of three as fit into `at_least` of them.
    Greedy: of some random legal combinations, the one with the most missing groups is taken."""
    names = sorted(axes)
    everything = [combination
                  for values in itertools.product(*(axes[name] for name in names))
                  if legal(combination := dict(zip(names, values)))]
    draw, chosen = random.Random(seed), []

    def take(candidates, missing, size):
        best = max(candidates, key=lambda c: len(groups_of(c, size) & missing))
        if not groups_of(best, size) & missing:  # rare groups are looked for everywhere
            holders = (c for c in everything if any(holds(c, group) for group in missing))
            best = max(holders, key=lambda c: len(groups_of(c, size) & missing))
        chosen.append(best)
        missing -= groups_of(best, size)

    missing = pairs_that_meet(axes, everything)
    while missing:
        take(draw.sample(everything, tries), missing, 2)
    missing = set().union(*(groups_of(c, 3) for c in draw.sample(everything, 20 * at_least)))
    for c in chosen:
        missing -= groups_of(c, 3)
    while missing and len(chosen) < at_least:
        take(draw.sample(everything, tries), missing, 3)
    return chosen
