// One machine, by its own API: which it is, what it runs with, and what it knows of etcd.
import { given } from "@gpve/contracts/given.ts";
import { type AppError, isAppError } from "@gpve/contracts/errors.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { writeConfig } from "../../config/config-text.ts";
import type { TalosMachine } from "../../client/talos-client.ts";
import { configDifferences, ConfigReader, type ReadConfig, withVersions } from "../config-parts.ts";
import { schematicIn } from "./look-at-image.ts";
import { lookAtNetwork } from "./look-at-network.ts";
import type { MachineAddress, Machines } from "../machines-port.ts";
import type { SeenChange, SeenEtcd, SeenTalos } from "../world.ts";

export interface MachineQuestion extends MachineAddress {
  /** SMBIOS' one, by which the guest is known. */
  readonly uuid: string;
  readonly role: "controlplane" | "worker";
  /** undefined: it is no longer in the file. */
  readonly wanted: ReadConfig | undefined;
}

const TIMEOUT_MS = 10_000;

export async function lookAtMachine(
  machines: Machines,
  question: MachineQuestion,
  reader = new ConfigReader(),
): Promise<SeenTalos> {
  try {
    return await withClient(machines.member(question, TIMEOUT_MS), (client) =>
      asMember(client, question, reader),
    );
  } catch (err) {
    if (!isAppError(err)) throw err;
    // Machines without a configuration show a certificate of their own, and refuse what only members may.
    if (["auth.failed", "access.denied", "feature.unsupported"].includes(err.code)) {
      return asStranger(machines, question, err);
    }
    return { state: "silent", reason: err.message };
  }
}

async function asStranger(machines: Machines, question: MachineQuestion, why: AppError): Promise<SeenTalos> {
  try {
    return await withClient(machines.stranger(question, TIMEOUT_MS), async (client) => {
      const found = await uuidOf(client);
      if (found !== question.uuid) return foreign(question, found);
      return { state: "maintenance", version: (await client.version()).tag };
    });
  } catch (err) {
    if (!isAppError(err)) throw err;
    // It wants a certificate, and not of this cluster.
    if (err.code === "auth.failed") return { state: "foreign", reason: why.message };
    return { state: "silent", reason: err.message };
  }
}

async function asMember(
  client: TalosMachine,
  question: MachineQuestion,
  reader: ConfigReader,
): Promise<SeenTalos> {
  const found = await uuidOf(client);
  if (found !== question.uuid) return foreign(question, found);
  const [{ tag }, status, text, network, schematic] = await Promise.all([
    client.version(),
    client.resource("runtime", "MachineStatuses.runtime.talos.dev", "machine"),
    client.machineConfig(),
    lookAtNetwork(client),
    schematicIn(client),
  ]);
  const read = reader.read(question.name, text);
  const { isReady, unmet } = readiness(status);
  const isControlPlane = question.role === "controlplane";
  const { name, wanted } = question;
  const change =
    wanted === undefined || wanted.parts.rest === read.parts.rest
      ? undefined
      : await reader.change(name, wanted, () => changeOf(client, read, wanted));
  return {
    state: "configured",
    version: tag,
    ...given({ schematic }),
    isReady,
    unmet,
    config: read.parts,
    ...given({ change }),
    etcd: isControlPlane ? await etcdOf(client) : undefined,
    etcdService: isControlPlane ? ((await client.serviceState("etcd")) ?? "") : "",
    network,
  };
}

/** Talos tells by a dry run whether it could do without a reboot. */
async function changeOf(
  client: TalosMachine,
  { documents, parts }: ReadConfig,
  wanted: ReadConfig,
): Promise<SeenChange> {
  const next = withVersions(wanted.documents, parts);
  const differences = configDifferences(documents, next);
  try {
    await client.apply(writeConfig(next), "no-reboot", true);
    return { needsReboot: false, differences };
  } catch (err) {
    if (isAppError(err, "request.invalid") || isAppError(err, "resource.busy")) {
      return { needsReboot: true, differences };
    }
    throw err;
  }
}

/** undefined: etcd does not run here, or it is no member. */
async function etcdOf(client: TalosMachine): Promise<SeenEtcd | undefined> {
  try {
    const [members, status, alarms] = await Promise.all([
      client.members(),
      client.etcdStatus(),
      client.etcdAlarms(),
    ]);
    if (!members.some(({ id }) => id === status.id)) return undefined;
    return {
      id: status.id,
      isLeader: status.leader === status.id,
      members,
      problems: [
        ...status.errors,
        ...(status.leader === "0" ? ["it has no leader"] : []),
        ...alarms.map(({ id, alarm }) => `alarm of ${id}: ${alarm}`),
      ],
    };
  } catch (err) {
    if (isAppError(err)) return undefined;
    throw err;
  }
}

function readiness(status: unknown): { readonly isReady: boolean; readonly unmet: readonly string[] } {
  const tree = isObject(status) ? status : {};
  const inner = isObject(tree["status"]) ? tree["status"] : {};
  const unmet = Array.isArray(inner["unmetConditions"]) ? (inner["unmetConditions"] as unknown[]) : [];
  return {
    isReady: tree["stage"] === "running" && inner["ready"] === true,
    unmet: unmet.map((each) => (isObject(each) ? `${String(each["name"])}: ${String(each["reason"])}` : "")),
  };
}

export async function uuidOf(client: TalosMachine): Promise<string> {
  const found = await client.resource(
    "hardware",
    "SystemInformations.hardware.talos.dev",
    "systeminformation",
  );
  const uuid = isObject(found) ? found["uuid"] : undefined;
  return typeof uuid === "string" ? uuid.toLowerCase() : "";
}

function foreign({ uuid, address }: MachineQuestion, found: string): SeenTalos {
  return {
    state: "foreign",
    reason: `${address} is the machine ${found || "without identity"}, not ${uuid}`,
  };
}

async function withClient<T>(
  opening: Promise<TalosMachine>,
  work: (client: TalosMachine) => Promise<T>,
): Promise<T> {
  const client = await opening;
  try {
    return await work(client);
  } finally {
    client.close();
  }
}
