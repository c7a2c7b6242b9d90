// Runs a scenario in virtual time: every node's processes take a second each, a round of all takes 20 seconds at least
// and two for each node, and the next list of commands comes after five rounds.
import { Coordinator } from "../coordinator.ts";
import { LocalManager } from "../local-manager.ts";
import { executeServiceCommand } from "./service-command.ts";
import { FailingGuests } from "./failing-guest.ts";
import { nodeEnvironment } from "./node-environment.ts";
import type { Scenario } from "./scenario.ts";
import { World } from "./world.ts";

const roundS = 20;
const roundsPerCommands = 5;
const quietS = 500;
const limitS = 100_000;

interface Processes {
  crm?: Coordinator | undefined;
  lrm?: LocalManager | undefined;
  ending?: "shutdown" | "reboot" | "restart" | undefined;
}

export class Simulation {
  readonly world: World;
  readonly #faults = new FailingGuests();
  readonly #processes = new Map<string, Processes>();
  readonly #skipRounds = { crm: 0, lrm: 0 };

  constructor(scenario: Scenario) {
    this.world = new World(scenario);
  }

  /** Plays the whole script and lets things settle. */
  run(): World {
    const { world } = this;
    world.say("info", "hardware", "starting simulation");
    const script = [...world.scenario.script];
    let rounds = 0;
    let delayUntilS = 0;
    let lastCommandS = 0;
    // The first list comes one round after the start.
    this.round();
    while (world.nowS < limitS) {
      if (world.nowS >= delayUntilS) {
        if (rounds % roundsPerCommands === 0) {
          const commands = script.shift();
          if (commands === undefined && world.nowS - lastCommandS > quietS) break;
          for (const command of commands ?? []) {
            lastCommandS = world.nowS;
            const delay = /^delay\s+(\d+)$/.exec(command);
            if (delay === null) this.execute(command, "cmdlist");
            else {
              world.say("info", "cmdlist", `execute ${command}`);
              delayUntilS = world.nowS + Number(delay[1]);
            }
          }
        }
        rounds++;
      }
      this.round();
    }
    world.say("info", "hardware", "exit simulation - done");
    return world;
  }

  round(): void {
    const { world } = this;
    const end = world.nowS + Math.max(roundS, 2 * world.nodes.size);
    const skipCrm = this.#skips("crm");
    const skipLrm = this.#skips("lrm");
    for (const node of world.names()) {
      const processes = this.#of(node);
      if (processes.crm !== undefined && !skipCrm) {
        const goesOn = processes.crm.round();
        world.nowS++;
        if (!goesOn) this.#crmEnded(node);
      }
      const lrm = this.#of(node).lrm;
      if (lrm !== undefined && !skipLrm) {
        const goesOn = lrm.round();
        world.nowS++;
        if (!goesOn) this.#lrmEnded(node);
      }
      // A watchdog waits for nobody's turn.
      for (const each of world.names()) this.#letBite(each);
    }
    world.nowS = Math.max(end, world.nowS);
  }

  #letBite(node: string): void {
    const { world } = this;
    if (!world.watchdogBites(node)) return;
    world.say("info", "watchdog", `execute power ${node} off`);
    this.#powerOff(node);
    world.say("info", "hardware", `server '${node}' stopped by poweroff (watchdog)`);
  }

  #skips(role: "crm" | "lrm"): boolean {
    if (this.#skipRounds[role] === 0) return false;
    this.#skipRounds[role]--;
    this.world.say("info", "run-loop", `skipping ${role.toUpperCase()} round`);
    return true;
  }

  execute(command: string, by: string): void {
    const { world } = this;
    world.say("info", by, `execute ${command}`);
    const [verb = "", subject = "", first = "", second = ""] = command.split(/\s+/);
    if (verb === "service") return executeServiceCommand(world, command);
    if (verb === "skip-round") {
      if (subject === "lrm" || subject === "crm") this.#skipRounds[subject] += Number(first || 1);
      return;
    }
    const node = world.nodes.get(subject);
    if (node === undefined) throw new Error(`simulation: no such node in command '${command}'`);
    switch (verb) {
      case "power":
        return first === "on" ? this.#powerOn(subject) : this.#powerOff(subject);
      case "network":
        node.network = first === "on";
        return;
      case "cfs":
        if (first === "rw") node.storeFails = second === "fail";
        else node.storeStale = second === "fail";
        return;
      case "shutdown":
      case "reboot":
        return this.#shutDown(subject, verb);
      case "restart-lrm":
        return this.#shutDown(subject, "restart");
      case "crm":
        return this.#crmCommand(subject, first, second);
      default:
        throw new Error(`simulation: unknown command '${command}'`);
    }
  }

  #crmCommand(node: string, first: string, second: string): void {
    const processes = this.#of(node);
    if (first === "stop") return processes.crm?.requestShutdown();
    if (first === "start") {
      if (this.world.nodes.get(node)?.power === true) processes.crm ??= this.#newCrm(node);
      return;
    }
    const argument = first.endsWith("-node-maintenance") ? node : second;
    this.world.commands.push(`${first} ${argument}`.trim());
  }

  #of(node: string): Processes {
    const processes = this.#processes.get(node) ?? {};
    this.#processes.set(node, processes);
    return processes;
  }

  #powerOn(node: string): void {
    const hardware = this.world.nodes.get(node);
    if (hardware === undefined) return;
    hardware.network = true;
    if (hardware.power) return;
    hardware.power = true;
    hardware.storeFails = false;
    hardware.storeStale = false;
    this.#processes.set(node, {
      crm: this.#newCrm(node),
      lrm: this.#newLrm(node),
    });
  }

  #newCrm(node: string): Coordinator {
    return new Coordinator(nodeEnvironment(this.world, this.#faults, node, "crm"));
  }

  #newLrm(node: string): LocalManager {
    return new LocalManager(nodeEnvironment(this.world, this.#faults, node, "lrm"));
  }

  #powerOff(node: string): void {
    const processes = this.#of(node);
    if (processes.crm !== undefined) this.world.say("info", `${node}/crm`, "killed by poweroff");
    if (processes.lrm !== undefined) this.world.say("info", `${node}/lrm`, "killed by poweroff");
    this.#processes.delete(node);
    this.world.cutPower(node);
  }

  #shutDown(node: string, how: "shutdown" | "reboot" | "restart"): void {
    const processes = this.#of(node);
    processes.ending = how;
    processes.lrm?.requestShutdown(how);
  }

  #lrmEnded(node: string): void {
    const processes = this.#of(node);
    processes.lrm = undefined;
    this.world.say("info", `${node}/lrm`, "exit (loop end)");
    if (processes.ending === "restart") {
      processes.ending = undefined;
      processes.lrm = this.#newLrm(node);
    } else if (processes.ending !== undefined) {
      this.execute(`crm ${node} stop`, processes.ending);
      // Stopped before: nothing is left to wait for.
      if (processes.crm === undefined) this.#goDown(node);
    }
  }

  #crmEnded(node: string): void {
    const processes = this.#of(node);
    processes.crm = undefined;
    this.world.say("info", `${node}/crm`, "exit (loop end)");
    this.#goDown(node);
  }

  #goDown(node: string): void {
    const { ending } = this.#of(node);
    if (ending === undefined || ending === "restart") return;
    this.execute(`power ${node} off`, ending);
    if (ending === "reboot") this.execute(`power ${node} on`, ending);
  }
}
