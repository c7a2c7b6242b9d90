// `gpve lab ...`: faults for the nodes of `gpve up --nodes`. What state a node is in is read off its processes and cables.
import { parseArgs } from "node:util";
import { given } from "@gpve/contracts/given.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import type { Io } from "../io.ts";
import { cutNode, cutNodes, healNode } from "../lab/lab-network.ts";
import { labNode, requireLab, type Lab, type LabNode } from "../lab/lab-plan.ts";
import { partNames, runningFence, runningPart, startPart, stopPart } from "../lab/node-parts.ts";
import { notePowerLoss, powerLoss, type PowerLoss } from "../lab/lab-watchdog.ts";
import { nodeProcesses, signalNode } from "../lab/node-processes.ts";
import { startNodeParts } from "../lab/start-lab.ts";
import { sendSignal } from "../long-lived-process.ts";
import { dataDirOption } from "./options.ts";

/** Of the whole node where no part is named. */
type OnlyPart = "agent" | "server" | undefined;
type Verb = (lab: Lab, node: LabNode, only: OnlyPart) => Promise<string>;

const RESTART_PATIENCE_MS = 10_000;

const verbs: Readonly<Record<string, Verb>> = {
  kill: (_lab, node, only) => told(node, "SIGKILL", only, "has lost its power"),
  freeze: (_lab, node, only) => told(node, "SIGSTOP", only, "stands still"),
  thaw: (_lab, node, only) => told(node, "SIGCONT", only, "goes on"),
  // As an upgrade does it: asked to stop, started again; guests and etcd are left alone.
  restart: async (lab, node, only) => {
    if (isOff(node)) throw new AppError("object.conflict", offText(node));
    const parts = only === undefined ? (["server", "agent"] as const) : [only];
    for (const part of parts) {
      await stopPart(node, part, RESTART_PATIENCE_MS);
      await startPart(lab, node, part);
    }
    return `${parts.join(" and ")} of ${node.name} ${parts.length === 1 ? "has" : "have"} been restarted`;
  },
  cut: async (lab, node) => {
    await cutNode(lab, node);
    return `${node.name} has no network`;
  },
  heal: async (lab, node) => {
    await healNode(lab, node);
    signalNode(node, "SIGCONT");
    await startNodeParts(lab, node);
    return `${node.name} is back`;
  },
};

const USAGE = `./gpve lab ${Object.keys(verbs).join("|")} NODE, or ./gpve lab status`;

export async function lab(args: readonly string[], io: Io): Promise<number> {
  const { values, positionals } = parse(args);
  const [verb = "status", name, ...rest] = positionals;
  const found = requireLab(dataDirOption(values.data));
  if (rest.length > 0) throw new AppError("config.invalid", `gpve lab ${verb} takes one node: ${USAGE}`);
  if (verb === "status") {
    const rows = await statusRows(found);
    io.out(values.output === "json" ? JSON.stringify(rows, undefined, 2) : table(rows));
    return 0;
  }
  const run = verbs[verb];
  if (run === undefined) throw new AppError("config.invalid", `gpve lab ${verb}: ${USAGE}`);
  io.out(await run(found, labNode(found, name), onlyPart(verb, values)));
  return 0;
}

function onlyPart(
  verb: string,
  { "agent-only": agent, "server-only": server }: { "agent-only"?: boolean; "server-only"?: boolean },
): OnlyPart {
  if (agent !== true && server !== true) return undefined;
  if (agent === true && server === true)
    throw new AppError(
      "config.invalid",
      `gpve lab ${verb}: --agent-only and --server-only exclude each other; leave both out for the whole node`,
    );
  const option = agent === true ? "--agent-only" : "--server-only";
  if (verb === "cut" || verb === "heal")
    throw new AppError("config.invalid", `gpve lab ${verb} is for a whole node: leave out ${option}`);
  return agent === true ? "agent" : "server";
}

function parse(args: readonly string[]) {
  const options = {
    data: { type: "string" },
    "agent-only": { type: "boolean" },
    "server-only": { type: "boolean" },
    output: { type: "string" },
  } as const;
  try {
    return parseArgs({ args: [...args], options, strict: true, allowPositionals: true });
  } catch (cause) {
    throw new AppError("config.invalid", `gpve lab: ${(cause as Error).message}. ${USAGE}`, { cause });
  }
}

async function told(node: LabNode, signal: NodeJS.Signals, only: OnlyPart, became: string): Promise<string> {
  if (only !== undefined) {
    const part = runningPart(node, only);
    if (part === undefined)
      throw new AppError("object.not_found", `the ${only} of ${node.name} does not run`);
    sendSignal(part.pid, signal);
    return `the ${only} of ${node.name} ${signal === "SIGKILL" ? "was killed" : became}`;
  }
  // No mistake of who asks: its watchdog may have reset a node that was frozen.
  if (signal !== "SIGKILL" && isOff(node)) return offText(node);
  const wasOff = isOff(node);
  const count = signalNode(node, signal);
  // Killed is gone: whoever asks next finds nothing of it.
  while (signal === "SIGKILL" && nodeProcesses(node).length > 0) {
    signalNode(node, signal);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  if (signal === "SIGKILL" && !wasOff) notePowerLoss(node, { at: systemClock.now(), by: "killed" });
  return `${node.name} ${became} (${count} processes)`;
}

function isOff(node: LabNode): boolean {
  return nodeProcesses(node).length === 0;
}

const lossTexts: Readonly<Record<PowerLoss["by"], string>> = {
  watchdog: " (its watchdog has reset it)",
  killed: " (it was killed)",
};

function offText(node: LabNode): string {
  const loss = powerLoss(node);
  return `${node.name} is off${loss === undefined ? "" : lossTexts[loss.by]}, and nothing was done: ./gpve lab heal ${node.name} boots it`;
}

interface StatusRow {
  readonly node: string;
  readonly address: string;
  readonly power: "on" | "off" | "frozen";
  readonly network: "up" | "cut";
  readonly running: readonly string[];
  readonly processes: number;
  /** When its watchdog ended it; it was not started since. */
  /** Of a node that is off: who took its power, and when. */
  readonly loss?: PowerLoss;
}

async function statusRows(of: Lab): Promise<StatusRow[]> {
  const cut = await cutNodes(of);
  return of.nodes.map((node) => {
    const processes = nodeProcesses(node);
    const frozen = processes.length > 0 && processes.every(({ state }) => state === "T" || state === "t");
    const isGone = processes.length === 0;
    return {
      node: node.name,
      address: node.address,
      power: isGone ? "off" : frozen ? "frozen" : "on",
      network: cut.has(node.name) ? "cut" : "up",
      running: [
        ...partNames.filter((part) => runningPart(node, part) !== undefined),
        ...(runningFence(node) === undefined ? [] : ["fence"]),
      ],
      ...given({ loss: isGone ? powerLoss(node) : undefined }),
      processes: processes.length,
    };
  });
}

function table(rows: readonly StatusRow[]): string {
  const lines = [
    ["NODE", "ADDRESS", "POWER", "NETWORK", "PROCESSES", "RUNNING"],
    ...rows.map((row) => [
      row.node,
      row.address,
      row.loss === undefined ? row.power : `${row.power} (${row.loss.by})`,
      row.network,
      String(row.processes),
      row.running.join(" ") || "-",
    ]),
  ];
  const widths = lines[0]?.map((_, at) => Math.max(...lines.map((line) => (line[at] ?? "").length))) ?? [];
  return lines
    .map((line) =>
      line
        .map((cell, at) => cell.padEnd(widths[at] ?? 0))
        .join("  ")
        .trimEnd(),
    )
    .join("\n");
}
