// The frame that phases of every kind are drawn in: phases, events and what leads from one to the other, all of it data.

export interface Transition<Phase extends string, Event extends string> {
  readonly from: Phase;
  readonly event: Event;
  readonly to: Phase;
  /** What must have happened. */
  readonly when: string;
  /** What is done about it, or told. */
  readonly effect: string;
}

export interface StateMachine<Phase extends string, Event extends string> {
  /** Each with what it means. */
  readonly phases: Readonly<Record<Phase, string>>;
  readonly first: Phase;
  /** After which there is nothing any more. */
  readonly last: Phase;
  readonly transitions: readonly Transition<Phase, Event>[];
}

/** The phases on the shortest way from one to another, the last one included; undefined = no way leads there. */
export function wayTo<Phase extends string>(
  machine: StateMachine<Phase, string>,
  from: Phase,
  to: Phase,
): readonly Phase[] | undefined {
  const cameFrom = new Map<Phase, Phase | undefined>([[from, undefined]]);
  // Grows while it is walked: nearest first.
  for (const phase of cameFrom.keys()) {
    if (phase === to) return unwound(cameFrom, to);
    for (const next of machine.transitions)
      if (next.from === phase && !cameFrom.has(next.to)) cameFrom.set(next.to, phase);
  }
  return undefined;
}

function unwound<Phase extends string>(
  cameFrom: ReadonlyMap<Phase, Phase | undefined>,
  to: Phase,
): readonly Phase[] {
  const way: Phase[] = [];
  for (let at: Phase | undefined = to; at !== undefined; at = cameFrom.get(at)) way.unshift(at);
  return way.slice(1);
}
