// What a machine that runs has to be away for: other settings of its guest, another system, a configuration that takes a
// reboot. In this order: a configuration may be of the system that comes with it.
import { given } from "@gpve/contracts/given.ts";
import type { Step } from "../../plan/plan-steps.ts";
import { stopStep, waitsForStop } from "./decide-guests.ts";
import { wantedTalos } from "../desired.ts";
import { isOutdated, schematicChange } from "../outdated.ts";
import type { Pair, Situation } from "../situation.ts";
import { configured } from "../world.ts";

/** The next step that takes the machine away; undefined: it needs none. */
export function disruptiveStep(situation: Situation, pair: Pair): Step | undefined {
  const { machine, seen } = pair;
  if (seen.guest !== undefined && waitsForStop(situation, machine, seen.guest))
    return stopStep(machine, seen.guest);
  if (needsTalos(situation, pair)) return upgradeStep(situation, pair);
  // Those of a rotation have an order of their own.
  const isRotating = situation.desired.rotation !== undefined;
  return needsReboot(situation, pair) && !isRotating ? reconfigureStep(pair) : undefined;
}

export function needsTalos({ desired }: Situation, { machine, seen }: Pair): boolean {
  const talos = configured(seen);
  return talos !== undefined && isOutdated(desired, machine, talos);
}

export function needsConfig({ desired }: Situation, { machine, seen }: Pair): boolean {
  const talos = configured(seen);
  return talos !== undefined && talos.config.rest !== desired.config(machine).rest;
}

export function needsReboot(situation: Situation, pair: Pair): boolean {
  return needsConfig(situation, pair) && configured(pair.seen)?.change?.needsReboot === true;
}

export function reconfigureStep({ machine, seen }: Pair): Step {
  const change = configured(seen)?.change;
  return {
    kind: "talos.reconfigure",
    impact: change?.needsReboot === true ? "disruptive" : "safe",
    subject: machine.name,
    differences: change?.differences ?? [],
  };
}

function upgradeStep({ desired }: Situation, { machine, seen }: Pair): Step {
  const talos = configured(seen);
  const schematic = talos === undefined ? undefined : schematicChange(desired, machine, talos);
  return {
    kind: "talos.upgrade",
    impact: "disruptive",
    subject: machine.name,
    from: talos?.version ?? "",
    to: wantedTalos(desired),
    ...given({ schematic }),
  };
}
