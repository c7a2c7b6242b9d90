// Which nodes filters refuse that look at nodes alone. Worked out once for all requests of a shape, until a node changes.
import type { Filter, Question } from "./plugin.ts";

/** 0 = none refuses; else one more than the number of the first filter that does. */
export function keptRefusals(question: Question, filters: readonly Filter[]): Uint8Array {
  const { state } = question;
  const shapes = filters.map(({ name, shape }) => [name, shape?.(question)]);
  return state.memo(`refusals ${JSON.stringify(shapes)}`, () => {
    const refused = new Uint8Array(state.nodes.length);
    const prepared = filters.map((filter) => filter.prepare(question));
    for (let at = 0; at < refused.length; at++) {
      refused[at] = prepared.findIndex((filter) => filter?.refuses(at) === true) + 1;
    }
    return refused;
  });
}
