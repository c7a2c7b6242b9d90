import { existsSync, readFileSync } from "node:fs";
import { given } from "@gpve/contracts/given.ts";
import { messageOf } from "@gpve/contracts/errors.ts";
import { openDataDir, type DataDir } from "@gpve/kit/data-dir.ts";
import type { Io } from "../io.ts";
import { readRunState } from "../run-state.ts";
import { commandOptions, dataDirOption } from "./options.ts";
import { localClient } from "./running-guests.ts";

type LocalClient = NonNullable<ReturnType<typeof localClient>>;

/** Exit code 0 = running and answering, 3 = not running (as init scripts say), 1 = running but not answering. */
export async function status(args: readonly string[], io: Io): Promise<number> {
  const options = commandOptions("status", args, { data: { type: "string" }, output: { type: "string" } });
  const path = dataDirOption(options.data);
  const data = existsSync(path) ? openDataDir(path) : undefined;
  const state = data === undefined ? undefined : readRunState(data);
  const facts: Record<string, unknown> = { running: state !== undefined, data: path };
  let code = 3;
  if (data !== undefined && state !== undefined) {
    Object.assign(facts, {
      version: state.version,
      url: state.url,
      node: state.node,
      pid: state.process.pid,
      startedAt: state.startedAt,
      rssMiB: residentMiB(state.process.pid),
    });
    const answer = await ask(data);
    Object.assign(facts, answer.facts);
    code = answer.ok ? 0 : 1;
  }
  io.out(options.output === "json" ? JSON.stringify(facts, undefined, 2) : table(facts));
  if (state === undefined) io.err("gpve is not running; start it with ./gpve up --detach");
  return code;
}

async function ask(data: DataDir): Promise<{ ok: boolean; facts: Record<string, unknown> }> {
  const client = localClient(data);
  if (client === undefined)
    return { ok: false, facts: { answering: "no credentials.json in the data directory" } };
  try {
    const nodes = await client.pve.list("/nodes");
    const guests = await client.pve.list("/cluster/resources", { type: "vm" });
    const confinement = await confinementOf(client, String(nodes[0]?.["node"]));
    return {
      ok: true,
      facts: {
        answering: "yes",
        nodes: nodes.map((row) => `${String(row["node"])} ${String(row["status"])}`).join(", "),
        guests: `${guests.filter((row) => row["status"] === "running").length} running, ${guests.length} in all`,
        ...given({ confinement }),
      },
    };
  } catch (err) {
    return { ok: false, facts: { answering: `no: ${messageOf(err)}` } };
  } finally {
    client.close();
  }
}

/** How guests of this node are held. */
async function confinementOf(client: LocalClient, node: string): Promise<string | undefined> {
  const answer = await client.v1
    .raw("GET", `nodes/${encodeURIComponent(node)}/capabilities`)
    .catch(() => undefined);
  const list = (answer as { capabilities?: readonly { name: string; detail: string }[] } | undefined)
    ?.capabilities;
  return list?.find(({ name }) => name === "confinement")?.detail;
}

function residentMiB(pid: number): number {
  const match = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  return Math.round(Number(match?.[1] ?? 0) / 1024);
}

function table(facts: Readonly<Record<string, unknown>>): string {
  const width = Math.max(...Object.keys(facts).map((key) => key.length));
  return Object.entries(facts)
    .map(
      ([key, value]) =>
        `${key.padEnd(width)}  ${value === true ? "yes" : value === false ? "no" : String(value)}`,
    )
    .join("\n");
}
