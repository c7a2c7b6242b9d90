// The environment of one simulated node: what it can see and do of the simulated cluster.
import type { GuestActions, HaEnvironment } from "../environment.ts";
import type { Load } from "../model.ts";
import { isLeftover } from "../leftover-lock.ts";
import type { FailingGuests } from "./failing-guest.ts";
import type { World } from "./world.ts";

const noLoad: Load = { cpu: 1, memory: 1 };
const levels = { info: "info", notice: "noti", warning: "warn", error: "err", mail: "emai" };

export function nodeEnvironment(
  world: World,
  faults: FailingGuests,
  node: string,
  role: "crm" | "lrm",
): HaEnvironment {
  const hardware = () => world.nodes.get(node);
  const store = <T>(use: () => T): T => {
    if (hardware()?.storeFails === true) throw new Error("cfs connection refused - not mounted?");
    return use();
  };
  return {
    node,
    timings: world.timings,
    now: () => world.nowS,
    log: (level, text) => world.say(levels[level], `${node}/${role}`, text),
    refresh: () => hardware()?.storeStale !== true,
    quorate: () => world.quorate(node),
    members: () => new Map(world.names().map((name) => [name, world.connected(name)])),
    lock: (name) => world.lock(name, node),
    unlock: (name) => world.unlock(name, node),
    feedWatchdog: (by) => world.feedWatchdog(node, by),
    closeWatchdog: (by) => world.closeWatchdog(node, by),
    managerStatus: () => store(() => world.manager),
    saveManagerStatus: (status) => store(() => void (world.manager = status)),
    localStatus: (name) => store(() => world.localStatus.get(name)),
    saveLocalStatus: (status) =>
      store(() => {
        // Without quorum the shared store takes nothing.
        if (world.quorate(node)) world.localStatus.set(node, status);
      }),
    services: () => world.services,
    rules: () => world.scenario.rules,
    settings: () => world.scenario.settings,
    nodeCapacity: (name) => world.nodes.get(name)?.capacity ?? noLoad,
    serviceLoad: (sid, measured) => (measured ? world.measured : world.configured).get(sid) ?? noLoad,
    takeCommands: () => world.commands.splice(0),
    hasCommands: () => world.commands.length > 0,
    takeOver: (sid, _from, to) => world.moveConfig(sid, to),
    clearGuestLock: (sid) => {
      const lock = world.guestLocks.get(sid);
      if (!isLeftover(lock)) return undefined;
      world.guestLocks.delete(sid);
      return lock;
    },
    guests: guestActions(world, faults, node),
  };
}

function guestActions(world: World, faults: FailingGuests, node: string): GuestActions {
  return {
    isHere: (sid) => world.services.get(sid)?.node === node,
    isRunning: (sid) => world.runsOn(sid) === node,
    start: (sid) => {
      if (world.guestLocks.has(sid) || faults.startFails(sid, node)) return false;
      world.started(sid, node);
      return true;
    },
    stop: (sid) => {
      if (world.guestLocks.has(sid) || faults.stopFails(sid)) return false;
      world.stopped(sid);
      return true;
    },
    canMove: (sid, target) =>
      world.connected(target) && !faults.moveFails(sid, node) && !world.guestLocks.has(sid),
    move: (sid, target) => {
      world.stopped(sid);
      world.moveConfig(sid, target);
      return true;
    },
  };
}
