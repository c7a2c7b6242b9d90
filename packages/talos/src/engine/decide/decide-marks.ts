// Labels and taints that workers may not give their own nodes are given as their administrator.
import { isMarked, strayMarks, taintText, wantedMarks } from "../../kubernetes/node-marks.ts";
import { doing, pairs, type Rule } from "../situation.ts";
import { configured, nodeOf } from "../world.ts";

/** After its own configuration: while Talos is still told of them, it takes for its own what it may not take away again. */
export const markNodes: Rule = (situation) =>
  doing(
    pairs(situation).flatMap(({ machine, seen }) => {
      const node = nodeOf(situation.world, seen);
      const wanted = wantedMarks(machine);
      const isTold = configured(seen)?.config.rest === situation.desired.config(machine).rest;
      if (node === undefined || !isTold || isMarked(wanted, node.marks)) return [];
      const has = new Set(node.marks?.taints.map(taintText));
      const taints = wanted.taints.filter((taint) => !has.has(taintText(taint)));
      const stray = strayMarks(wanted, node.marks?.own);
      return [
        {
          kind: "node.mark" as const,
          // Pods that do not tolerate it go at once.
          impact: taints.some(({ effect }) => effect === "NoExecute")
            ? ("disruptive" as const)
            : ("safe" as const),
          subject: machine.name,
          labels: [
            ...Object.entries(wanted.labels).map(([label, value]) => `${label}=${value}`),
            ...Object.keys(stray.labels).map((label) => `${label}-`),
          ],
          taints: [...wanted.taints.map(taintText), ...stray.taints.map((taint) => `${taintText(taint)}-`)],
        },
      ];
    }),
  );
