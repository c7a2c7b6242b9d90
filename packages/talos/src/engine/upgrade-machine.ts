// The system of a machine exchanged for another: what can go wrong before its pods are moved away does so before.
import { AppError, isAppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/client/response-error.ts";
import type { Clock } from "@gpve/kit/clock.ts";
import { installerImage } from "../cluster/cluster-inputs.ts";
import type { Machine } from "../cluster/machine.ts";
import type { TalosMachine } from "../client/talos-client.ts";
import type { Step } from "../plan/plan-steps.ts";
import type { Desired } from "./desired.ts";
import { schematicIn } from "./observe/look-at-image.ts";
import { isOutdated, machineToUpgrade } from "./outdated.ts";
import { hasLifecycle } from "./versions.ts";
import { configured, type World } from "./world.ts";

export interface UpgradeDeps {
  readonly clock: Pick<Clock, "monotonic" | "sleep">;
  /** Makes known to the Image Factory what the installer is made of. */
  readonly registerImage: (machine: Machine) => Promise<void>;
  /** Each time by a connection of its own. */
  readonly member: (work: (client: TalosMachine) => Promise<void>) => Promise<void>;
}

type TalosUpgrade = Extract<Step, { kind: "talos.upgrade" }>;

const PAUSE_MS = 2_000;
const REBOOT_MS = 900_000;

/** Asked before every drain: most have nothing to do with an upgrade. */
export async function readyUpgrade(
  { registerImage, member }: UpgradeDeps,
  desired: Desired,
  world: World,
  name: string,
): Promise<void> {
  const machine = machineToUpgrade(desired, name);
  const talos = configured(world.machines.get(name));
  if (machine === undefined || talos === undefined || !isOutdated(desired, machine, talos)) return;
  await registerImage(machine);
  // Older ones pull it in the one call that upgrades them.
  if (!hasLifecycle(talos.version)) return;
  const image = installerImage(desired.cluster, machine.extensions);
  await member(async (client) => {
    try {
      await client.pull(image);
    } catch (err) {
      if (!isAppError(err)) throw err;
      const data = { ...err.data, finding: "installer-missing", next: "Its node was not drained." };
      throw new AppError(err.code, err.message, { cause: err, data });
    }
  });
}

/** Installed, rebooted, and up again with the system asked for; Talos goes back to the old one when it cannot boot. */
export async function upgradeMachine(deps: UpgradeDeps, desired: Desired, step: TalosUpgrade): Promise<void> {
  const machine = desired.machines.find(({ name }) => name === step.subject);
  if (machine === undefined) throw new AppError("internal.error", `${step.subject} is not in the file`);
  const image = installerImage(desired.cluster, machine.extensions);
  await deps.registerImage(machine);
  await deps.member(async (client) => {
    const before = await client.bootId();
    const isRebooting = await client.upgrade(image);
    if (!isRebooting) await client.reboot();
    await untilRebooted(deps, step, before);
    await deps.member((again) => refuseLostArgs(again, desired, step.subject));
  });
}

async function untilRebooted(
  { clock, member }: UpgradeDeps,
  step: TalosUpgrade,
  before: string,
): Promise<void> {
  const { subject: name, from } = step;
  const until = clock.monotonic() + REBOOT_MS;
  while (clock.monotonic() < until) {
    await clock.sleep(PAUSE_MS);
    try {
      await member(async (client) => {
        if ((await client.bootId()) === before)
          throw new AppError("node.unavailable", `${name} has not rebooted yet`);
        if (await isAsBefore(client, step)) throw rolledBack(name, from);
      });
      return;
    } catch (err) {
      if (!isAppError(err) || err.data["finding"] !== undefined) throw err;
    }
  }
  throw new AppError("request.timeout", `${name} did not come back after its upgrade`, {
    data: { finding: "machine-silent" },
  });
}

/** Another image of the same version is told apart by its schematic. */
async function isAsBefore(client: TalosMachine, { from, to, schematic }: TalosUpgrade): Promise<boolean> {
  if (from !== to) return (await client.version()).tag === from;
  return schematic !== undefined && (await schematicIn(client)) === schematic.from;
}

function rolledBack(name: string, version: string): AppError {
  return new AppError("operation.failed", `${name} is up again with ${version}, as before its upgrade`, {
    data: {
      finding: "upgrade-rolled-back",
      next: "No other machine was touched. Its console says why it did not boot.",
    },
  });
}

/** Upgrades keep arguments only as part of the image. */
async function refuseLostArgs(client: TalosMachine, { cluster }: Desired, name: string): Promise<void> {
  const { kernelArgs } = cluster.image;
  if (kernelArgs.length === 0) return;
  const found = await client.resource("runtime", "KernelCmdlines.runtime.talos.dev", "cmdline");
  const text = isObject(found) ? found["cmdline"] : undefined;
  const line = typeof text === "string" ? text.split(/\s+/) : [];
  // "-name" takes an argument away.
  const lost = kernelArgs.filter((arg) =>
    arg.startsWith("-") ? line.includes(arg.slice(1)) : !line.includes(arg),
  );
  if (lost.length === 0) return;
  throw new AppError("operation.failed", `${name} booted without ${lost.join(" ")} after its upgrade`, {
    data: { finding: "kernel-args-lost", next: "No other machine was touched." },
  });
}
