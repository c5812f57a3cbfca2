"""Whole numbers for shares: every stratum, every coarser stratum and the whole within one of its target."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import permutations

Key = tuple[str, ...]
_Step = tuple[int, bool]


def round_quotas(sizes: Mapping[Key, int], weights: Sequence[int]) -> dict[Key, list[int]]:
    """Return how many members of each stratum go to each part.

    Parameters
    ----------
    sizes : mapping of tuple of str to int
        Members of each stratum, by its levels; all keys have the same length, at least one.
    weights : sequence of int
        Weight of each part, at least one above zero; the target of a stratum is size * weight / sum(weights).

    Returns
    -------
    dict
        Counts in the order of the weights. They add up to the size; and in every stratum, in the union of strata
        that share their first 0, 1, 2, ... levels, and so in the whole, each count is its target rounded down or up.

    Notes
    -----
    Targets are a flow from the whole through ever finer strata. A flow whose sums are whole numbers has a cycle
    wherever it has a fraction; moving along the cycle until an edge becomes whole keeps all sums, and of the two ways
    round the one is taken that leaves strata, their unions and single attributes closer to their targets (least
    squares). Single moves then bring them closer still, which makes one stratum alone the largest-remainder rounding.
    All arithmetic is in integers, so the result depends on nothing but the arguments.
    """
    flow = _Flow(sum(weights))
    sums: Counter[Key] = Counter()
    for key in sorted(sizes):
        for length in range(len(key)):
            sums[key[:length]] += sizes[key]
    edges: dict[Key, list[int]] = {}
    for prefix, size in sums.items():
        edges[prefix] = [
            flow.add((prefix[:-1], part) if prefix else "whole", (prefix, part), size * weight, ((prefix, part),))
            for part, weight in enumerate(weights)
        ]
    for key in sorted(sizes):
        edges[key] = [
            flow.add((key[:-1], part), ("stratum", key), sizes[key] * weight, _terms(key, part))
            for part, weight in enumerate(weights)
        ]
    flow.make_whole()
    flow.improve(
        [[*zip(*(edges[key[:length]] for length in range(len(key) + 1)), strict=True)] for key in sorted(sizes)]
    )
    return {key: [flow.value[edge] // flow.unit for edge in edges[key]] for key in sizes}


def _terms(key: Key, part: int) -> tuple[object, ...]:
    """Return the sums in which members of a stratum count, those of its first levels left out: they have own edges."""
    return (key, part), *((place, level, part) for place, level in enumerate(key) if place)


class _Flow:
    """A flow in units of 1 / unit, with the squared distance of named sums from their start."""

    def __init__(self, unit: int) -> None:
        self.unit = unit
        self.value: list[int] = []
        self._start: list[int] = []
        self._ends: list[tuple[int, int]] = []
        self._terms: list[tuple[object, ...]] = []
        self._nodes: dict[object, int] = {}
        self._incident: list[list[int]] = []
        self._moved: dict[object, int] = {}

    def add(self, tail: object, head: object, value: int, terms: tuple[object, ...]) -> int:
        """Add an edge that counts in the sums named by its terms; return its number."""
        edge = len(self.value)
        self.value.append(value)
        self._start.append(value)
        self._terms.append(terms)
        self._ends.append((self._node(tail), self._node(head)))
        for node in self._ends[edge]:
            self._incident[node].append(edge)
        return edge

    def _node(self, name: object) -> int:
        if name not in self._nodes:
            self._nodes[name] = len(self._nodes)
            self._incident.append([])
        return self._nodes[name]

    def make_whole(self) -> None:
        """Round every edge down or up."""
        for edge in range(len(self.value)):
            while self._broken(edge):
                self._cancel(self._cycle(edge))

    def improve(self, strata: Sequence[Sequence[tuple[int, ...]]]) -> None:
        """Move single members of a stratum to another part while that brings the sums closer to their targets.

        A stratum is given by the edges that lead to it through each part, from the whole down.
        """
        better = True
        while better:
            better = False
            for chains in strata:
                for less, more in permutations(chains, 2):
                    if self._has_room(less, more):
                        steps = [*((edge, False) for edge in less), *((edge, True) for edge in more)]
                        net = self._net(steps)
                        if self._cost(net, self.unit) < 0:
                            self._push(steps, net, self.unit)
                            better = True

    def _has_room(self, less: Sequence[int], more: Sequence[int]) -> bool:
        """Return whether one member fewer, and one more, is still the target rounded down or up."""
        return all(self.value[edge] > self._start[edge] for edge in less) and all(
            self.value[edge] < self._start[edge] for edge in more
        )

    def _broken(self, edge: int) -> bool:
        return self.value[edge] % self.unit != 0

    def _cycle(self, edge: int) -> list[_Step]:
        """Walk along broken edges, from the tail of this one, until a node comes back."""
        node = self._ends[edge][0]
        seen = {node: 0}
        steps: list[_Step] = []
        while True:
            forward = self._ends[edge][0] == node
            node = self._ends[edge][1 if forward else 0]
            steps.append((edge, forward))
            if node in seen:
                return steps[seen[node] :]
            seen[node] = len(steps)
            edge = self._onward(node, edge)

    def _onward(self, node: int, arrived: int) -> int:
        """Return a broken edge of the node other than the one arrived by; sums are whole, so there is one."""
        edges = self._incident[node]
        found = self._last_broken(edges)
        if found == arrived:
            edges.pop()
            found = self._last_broken(edges)
            edges.append(arrived)
        return found

    def _last_broken(self, edges: list[int]) -> int:
        while not self._broken(edges[-1]):
            edges.pop()
        return edges[-1]

    def _cancel(self, cycle: list[_Step]) -> None:
        """Move along a cycle, either way round, until one of its edges is whole."""
        room = [(-self.value[edge] % self.unit, self.value[edge] % self.unit) for edge, _ in cycle]
        onward = min(up if forward else down for (up, down), (_, forward) in zip(room, cycle, strict=True))
        back = min(down if forward else up for (up, down), (_, forward) in zip(room, cycle, strict=True))
        net = self._net(cycle)
        self._push(cycle, net, min(onward, -back, key=lambda move: self._cost(net, move)))

    def _net(self, steps: Sequence[_Step]) -> dict[object, int]:
        net: dict[object, int] = {}
        for edge, forward in steps:
            for term in self._terms[edge]:
                net[term] = net.get(term, 0) + (1 if forward else -1)
        return net

    def _cost(self, net: Mapping[object, int], move: int) -> int:
        return sum((2 * self._moved.get(term, 0) + sign * move) * sign * move for term, sign in net.items())

    def _push(self, steps: Sequence[_Step], net: Mapping[object, int], amount: int) -> None:
        for edge, forward in steps:
            self.value[edge] += amount if forward else -amount
        for term, sign in net.items():
            self._moved[term] = self._moved.get(term, 0) + sign * amount
