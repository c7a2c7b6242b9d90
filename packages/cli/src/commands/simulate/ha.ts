import { existsSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { parseDocument } from "yaml";
import { AppError, isAppError, messageOf } from "@gpve/contracts/errors.ts";
import { readPveCase } from "@gpve/domain/ha/simulator/read-pve-case.ts";
import { readScenario } from "@gpve/domain/ha/simulator/read-scenario.ts";
import type { LogLine, Scenario } from "@gpve/domain/ha/simulator/scenario.ts";
import { Simulation } from "@gpve/domain/ha/simulator/simulation.ts";
import type { Cli, CommandSpec } from "../../command.ts";
import { yamlValue } from "../../yaml-value.ts";

export const simulateHa: CommandSpec = {
  name: "simulate ha",
  summary: "play a script of failures on the HA manager, in virtual time",
  details:
    "The file names nodes, services, rules and what happens: examples/ha/node-loss.yaml has all of it. " +
    "A folder is a case as PVE's own simulator keeps them: cmdlist, hardware_status, service_config and what else is there. " +
    "The manager is the one that runs in production; no server is asked and nothing is changed. Seconds are counted as PVE's simulator does, whose leases last two minutes; a gpve's last 13 seconds.",
  arguments: [{ name: "<file>", about: "the scenario: YAML, JSON, or the folder of a case" }],
  options: [{ flags: "--end-only", about: "only how it ends" }],
  examples: [
    "simulate ha examples/ha/node-loss.yaml",
    "simulate ha cut.yaml --end-only",
    "simulate ha test-basic3/",
  ],
  doing: (input) => `play ${input.arg("file")}`,
  run: async (cli, input) => {
    const world = new Simulation(read(cli, input.arg("file"))).run();
    const services = [...world.services]
      .toSorted(([one], [other]) => one.localeCompare(other, "en", { numeric: true }))
      .map(([service, { state, node }]) => ({
        service,
        wanted: state,
        state: world.manager.services[service]?.state ?? "unmanaged",
        node,
        runsOn: world.runsOn(service) ?? "",
      }));
    const seconds = world.nowS;
    const { reset, fenced } = lostNodes(world.log);
    const log = input.flag("endOnly") ? {} : { log: world.log };
    if (!cli.out.forPeople)
      cli.out.data({ seconds, services, reset, fenced, ranTwice: world.doubleStarts, ...log });
    else {
      if (!input.flag("endOnly")) {
        for (const { atS, level, who, text } of world.log)
          cli.out.text(`${String(atS).padStart(6)} s  ${level.padEnd(4)}  ${who}: ${text}\n`);
        cli.out.text("\n");
      }
      cli.out.text(
        cli.out.table(services, [
          { header: "SERVICE", field: "service" },
          { header: "WANTED", field: "wanted" },
          { header: "STATE", field: "state" },
          { header: "NODE", field: "node" },
          { header: "RUNS ON", field: "runsOn" },
        ]),
      );
      // Else a rule that contradicts another looks like one that holds.
      for (const text of new Set(world.log.map((line) => line.text)))
        if (text.startsWith("ignoring rule "))
          cli.out.text(`${text.replace("ignoring", "Not followed:")}.\n`);
      for (const { node, seconds: at } of reset)
        cli.out.text(`${node} was reset by its watchdog after ${at} s.\n`);
      for (const { node, seconds: at } of fenced) cli.out.text(`${node} was fenced after ${at} s.\n`);
    }
    if (world.doubleStarts.length > 0)
      throw new AppError("operation.failed", `services ran twice: ${world.doubleStarts.join(", ")}`, {
        data: { next: "This must never happen: please report it with the scenario." },
      });
    cli.out.done(`After ${seconds} seconds; nothing ever ran twice.`);
    return 0;
  },
};

interface Loss {
  readonly node: string;
  readonly seconds: number;
}

function lostNodes(log: readonly LogLine[]): {
  readonly reset: readonly Loss[];
  readonly fenced: readonly Loss[];
} {
  const said = (pattern: RegExp, by = ""): readonly Loss[] =>
    log.flatMap(({ atS: seconds, who, text }) => {
      const node = who.startsWith(by) ? pattern.exec(text)?.[1] : undefined;
      return node === undefined ? [] : [{ node, seconds }];
    });
  return {
    reset: said(/^execute power (\S+) off$/, "watchdog"),
    fenced: said(/^SUCCEED: fencing: .* for node '([^']+)'$/),
  };
}

function read(cli: Cli, given: string): Scenario {
  // The script of a case says nothing without the files beside it.
  const file = basename(given) === "cmdlist" ? dirname(given) : given;
  const path = resolve(cli.io.cwd, file);
  const isFolder = statSync(path, { throwIfNoEntry: false })?.isDirectory() === true;
  try {
    if (isFolder) {
      if (!existsSync(join(path, "cmdlist")))
        throw new AppError("request.invalid", "there is no cmdlist in it");
      return readPveCase((name) =>
        existsSync(join(path, name)) ? textOf(join(path, name), name) : undefined,
      );
    }
    return readScenario(yamlValue(parseDocument(textOf(path, file)), file, "request.invalid"));
  } catch (err) {
    if (!isAppError(err) || err.message.startsWith(file)) throw err;
    throw new AppError("request.invalid", `${file}: ${err.message}`, { cause: err });
  }
}

function textOf(path: string, name: string): string {
  try {
    return readFileSync(path, "utf8");
  } catch (cause) {
    throw new AppError("request.invalid", `${name} cannot be read: ${messageOf(cause)}`, { cause });
  }
}
