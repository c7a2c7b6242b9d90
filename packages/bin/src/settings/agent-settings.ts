// What an agent's configuration file makes of an agent. Every key is read here and nowhere else, into the options of
// those that act on it; a test changes each key and looks for what it changes.
import type { AgentSettings } from "@gpve/agent/agent-settings.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import { given } from "@gpve/contracts/given.ts";
import { vmKeySchema } from "@gpve/domain/vm/config/keys.ts";
import { checkFormat } from "@gpve/domain/schema/check.ts";
import { serverEndpoints, type AgentConfiguration } from "@gpve/kit/config/configuration.ts";
import { nodeReserve } from "../node-reserve.ts";
import { declaredStorages } from "./declared-storages.ts";
import { observabilitySettings, type FileObservability } from "./observability-settings.ts";

export interface AgentFileSettings {
  readonly dataDir: string;
  readonly observability: FileObservability;
  readonly node: { readonly nodeName: string; readonly address: string; readonly port: number };
  readonly join: {
    readonly endpoints: readonly string[];
    readonly token: string | undefined;
    readonly caFile: string | undefined;
  };
  /** Of the node's fence process. */
  readonly fence: { readonly watchdog: string | undefined };
  readonly agent: Pick<AgentSettings, "leaseFiles" | "qemuBinary" | "reserve" | "declared">;
}

/** Throws config.invalid with the key of what cannot be. */
export function agentSettings(config: AgentConfiguration): AgentFileSettings {
  const { nodeName, address, port } = config.agent;
  const { binaryPath, defaultMachine: machine, defaultCPU: cpu } = config.qemu;
  const { defaultBridge: bridge, leaseFile, bridges } = config.network;
  for (const [key, name, text] of [
    ["qemu.defaultMachine", "machine", machine],
    ["qemu.defaultCPU", "cpu", cpu],
  ] as const)
    if (text !== undefined) requireValue(key, name, text);
  return {
    dataDir: config.dataDir,
    observability: observabilitySettings(config),
    node: { nodeName, address, port },
    join: {
      endpoints: serverEndpoints(config),
      token: config.server.token,
      caFile: config.server.caFile,
    },
    fence: { watchdog: config.ha.watchdog },
    agent: {
      leaseFiles: leaseFile === undefined ? [] : [leaseFile],
      ...given({ qemuBinary: binaryPath }),
      reserve: nodeReserve(config.resources),
      declared: {
        defaults: given({ machine, cpu, bridge }),
        storages: declaredStorages(config.storage.plugins),
        bridges: bridges.map(({ name, address: own, vlanAware, ports }) => ({
          name,
          address: own,
          vlanAware,
          ports,
        })),
      },
    },
  };
}

function requireValue(key: string, name: string, text: string): void {
  const format = vmKeySchema(name)?.format;
  const problem = format === undefined ? undefined : checkFormat(format, text);
  if (problem === undefined) return;
  throw new AppError("config.invalid", `${key}: "${text}" is no ${name} of a VM: ${problem}`);
}
