// The life of an operation, as data: the engine's guard and docs/reference/operation-states.md derive from it.

export const operationStates = {
  queued: {
    meaning: "Accepted and durable; waits for its resources.",
    ends: false,
    to: {
      running: "all its resources are free and it is first in each queue",
      cancelled: "cancelled or overtaken before it began",
      failed: "after a restart its type is not known any more",
    },
  },
  running: {
    meaning: "Its steps run one after another; each is journaled before it begins.",
    ends: false,
    to: {
      done: "the last step succeeded",
      undoing: "a step failed, it was cancelled or overtaken, or a crash cut it off",
      failed: "after a restart its type is not known any more",
    },
  },
  undoing: {
    meaning: "Steps that had begun are undone, last first; a failing undo is tried again a few times.",
    ends: false,
    to: {
      failed: "undone after a failure or a crash",
      cancelled: "undone after a cancel or an overtaking",
    },
  },
  done: { meaning: "Every step succeeded.", ends: true, to: {} },
  failed: { meaning: "A step failed; what had begun was undone.", ends: true, to: {} },
  cancelled: { meaning: "Somebody ended it; what had begun was undone.", ends: true, to: {} },
} as const satisfies Record<string, { meaning: string; ends: boolean; to: Readonly<Record<string, string>> }>;

export type OperationState = keyof typeof operationStates;
export type Outcome = "done" | "failed" | "cancelled";

export function isEnded(state: OperationState): boolean {
  return operationStates[state].ends;
}

export function mayBecome(from: OperationState, to: OperationState): boolean {
  return Object.hasOwn(operationStates[from].to, to);
}

/** The text of docs/reference/operation-states.md. */
export function operationStatesPage(): string {
  const states = Object.entries(operationStates);
  const meanings = states.map(([name, state]) => [name, state.ends ? "yes" : "no", state.meaning]);
  const changes = states.flatMap(([name, state]) =>
    Object.entries(state.to).map(([to, when]) => [name, to, when]),
  );
  return [
    "# Operation states",
    "",
    "Generated from `packages/kit/src/operation/states.ts`.",
    "",
    ...table(["state", "final", "meaning"], meanings),
    "",
    ...table(["from", "to", "when"], changes),
    "",
  ].join("\n");
}

/** Padded as the formatter pads Markdown tables. */
function table(head: readonly string[], rows: readonly (readonly string[])[]): readonly string[] {
  const widths = head.map((_, at) => Math.max(...[head, ...rows].map((row) => row[at]?.length ?? 0)));
  const line = (cells: readonly string[]): string =>
    `| ${cells.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join(" | ")} |`;
  return [line(head), line(widths.map((width) => "-".repeat(width))), ...rows.map(line)];
}
