// Commands of a script that concern one service.
import type { WantedState } from "../model.ts";
import { defaultService } from "./scenario.ts";
import type { World } from "./world.ts";

const wanted = new Map<string, WantedState>([
  ["started", "started"],
  ["enabled", "started"],
  ["stopped", "stopped"],
  ["disabled", "disabled"],
  ["ignored", "ignored"],
]);

export function executeServiceCommand(world: World, command: string): void {
  const [, sid = "", verb = "", ...rest] = command.split(/\s+/);
  const config = world.services.get(sid);
  const state = wanted.get(verb);
  if (state !== undefined) {
    // Nobody can want anything of one that was deleted before.
    if (config !== undefined) world.services.set(sid, { ...config, state });
    return;
  }
  switch (verb) {
    case "migrate":
    case "relocate":
    case "stop":
      if (verb === "stop" && config !== undefined) world.services.set(sid, { ...config, state: "stopped" });
      world.commands.push(`${verb} ${sid} ${rest[0] ?? ""}`);
      return;
    case "add": {
      const [node = "", asked = "started", running] = rest;
      world.services.set(sid, { ...defaultService, node, state: wanted.get(asked) ?? "started" });
      if (running === "1") world.started(sid, node);
      return;
    }
    case "delete":
      world.services.delete(sid);
      return;
    case "lock":
      world.guestLocks.set(sid, rest[0] ?? "backup");
      return;
    case "unlock":
      if (rest[0] === undefined || rest[0] === world.guestLocks.get(sid)) world.guestLocks.delete(sid);
      return;
    case "manual-migrate": {
      const ran = world.runsOn(sid) !== undefined;
      world.stopped(sid);
      world.moveConfig(sid, rest[0] ?? "");
      if (ran) world.started(sid, rest[0] ?? "");
      return;
    }
    case "set-static-stats":
    case "set-dynamic-stats":
      return setLoad(verb === "set-static-stats" ? world.configured : world.measured, sid, rest);
    default:
      throw new Error(`simulation: unknown service command '${command}'`);
  }
}

/** Memory is given in MiB. */
function setLoad(loads: World["measured"], sid: string, pairs: readonly string[]): void {
  const load = { ...(loads.get(sid) ?? { cpu: 0, memory: 0 }) };
  for (let index = 0; index + 1 < pairs.length; index += 2) {
    const value = Number(pairs[index + 1]);
    if (pairs[index] === "cpu" || pairs[index] === "maxcpu") load.cpu = value;
    else load.memory = value * 1024 ** 2;
  }
  loads.set(sid, load);
}
