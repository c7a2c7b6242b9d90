// What a node's configuration declares of it: bridges, storages, and what VMs get that do not say.
import type { NodeFacts, NodeReport } from "@gpve/domain/node/runtime.ts";
import type { StorageDefinition } from "@gpve/domain/storage/definition.ts";
import { usableDefaults, type NodeDefaults } from "@gpve/domain/vm/spec/vm-defaults.ts";
import { background } from "@gpve/kit/background.ts";
import type { Exec } from "@gpve/kit/exec.ts";
import type { Logger } from "@gpve/kit/logger.ts";
import type { FactsKeeper } from "./facts-keeper.ts";
import { ensureBridges, type DeclaredBridge } from "../net/declared-bridges.ts";

export interface Declared {
  readonly defaults?: NodeDefaults;
  readonly storages?: readonly StorageDefinition[];
  readonly bridges?: readonly DeclaredBridge[];
}

export interface DeclaredNode {
  /** As far as guests of this machine can have them. */
  readonly defaults: () => NodeDefaults;
  /** For reports: facts with a row for each declared bridge. */
  readonly facts: () => { readonly facts: NodeFacts; readonly generation: number };
  readonly report: { readonly declaredStorages?: NonNullable<NodeReport["declaredStorages"]> };
}

export async function declaredNode(
  { defaults: wanted = {}, storages, bridges = [] }: Declared,
  {
    facts,
    exec,
    log,
  }: {
    readonly facts: Pick<FactsKeeper, "facts" | "guestsTried">;
    readonly exec: Exec;
    readonly log: Logger;
  },
): Promise<DeclaredNode> {
  const rows = await ensureBridges(bridges, { exec, log });
  const defaults = (): NodeDefaults => usableDefaults(wanted, facts.facts().facts.accelerator);
  const told = facts.guestsTried().then(() => {
    if (wanted.cpu !== defaults().cpu)
      log.warn(
        { cpu: wanted.cpu },
        "qemu.defaultCPU needs KVM, which does not work on this machine: new VMs get QEMU's own default instead",
      );
  });
  background(log, "looking at qemu.defaultCPU", told);
  return {
    defaults,
    facts: () => {
      const known = facts.facts();
      if (rows.length === 0) return known;
      return {
        ...known,
        facts: { ...known.facts, capabilities: [...known.facts.capabilities, ...rows] },
      };
    },
    report: storages === undefined || storages.length === 0 ? {} : { declaredStorages: storages },
  };
}
