// A decision of the scheduler as people read it: every node with its score, or with what speaks against it.
import type { Cli } from "../../command.ts";

export interface Explained {
  readonly node?: string;
  readonly strategy?: string;
  readonly nodes?: number;
  readonly feasible?: number;
  readonly refused?: Readonly<Record<string, number>>;
  readonly weights?: Readonly<Record<string, number>>;
  readonly verdicts?: readonly {
    readonly node: string;
    readonly score?: number;
    readonly parts?: Readonly<Record<string, number>>;
    readonly refusals: readonly { readonly filter: string; readonly why: string }[];
  }[];
}

export function verdictTable(cli: Cli, explained: Explained): string {
  const rows = (explained.verdicts ?? []).map(({ node, score, parts, refusals }) => ({
    node: node === explained.node ? `${node} *` : node,
    score: score ?? "",
    why:
      refusals.length > 0
        ? refusals.map(({ filter, why }) => `${filter}: ${why}`).join("; ")
        : Object.entries(parts ?? {})
            .map(([name, points]) => `${name} ${points}${weightText(explained, name)}`)
            .join(", "),
  }));
  return cli.out.table(rows, [
    { header: "NODE", field: "node" },
    { header: "SCORE", field: "score" },
    { header: "WHY", field: "why" },
  ]);
}

/** For who may not see nodes. */
export function countText({ nodes = 0, feasible = 0, refused = {} }: Explained): string {
  const by = Object.entries(refused).map(([filter, count]) => `${count} refused by ${filter}`);
  return [`${feasible} of ${nodes} nodes could take it`, ...by].join(", ");
}

function weightText({ weights }: Explained, name: string): string {
  const weight = weights?.[name] ?? 1;
  return weight === 1 ? "" : ` (x${weight})`;
}
