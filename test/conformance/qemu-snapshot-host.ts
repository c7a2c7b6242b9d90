// A host of snapshots whose storage can do what a volume's number says, and that fails as a case wants.
import { messageOf } from "@gpve/contracts/errors.ts";
import { parseVmConfig } from "@gpve/domain/vm/config/parse-config.ts";
import {
  createSnapshot,
  deleteSnapshot,
  prepare,
  rollbackSnapshot,
  type SnapshotHost,
} from "@gpve/domain/guest/snapshot/snapshot-run.ts";
import { commitSnapshot } from "@gpve/domain/guest/snapshot/snapshot.ts";
import type { GuestVolume } from "@gpve/domain/guest/snapshot/snapshot-rules.ts";
import { vmSnapshotRules, type SavedVmState } from "@gpve/domain/vm/snapshot/vm-snapshot-rules.ts";
import type { VmConfig } from "@gpve/domain/vm/config/vm-config.ts";
import { writeVmConfig } from "@gpve/domain/vm/config/write-config.ts";

export const PHASES = ["prepare", "commit", "create", "delete", "rollback"] as const;
export type Phase = (typeof PHASES)[number];
export const TROUBLES = [
  "no-feature",
  "no-state",
  "no-savevm",
  "no-freeze",
  "no-stop",
  "no-storage",
  "no-volume",
] as const;
export type Trouble = (typeof TROUBLES)[number];

/** One request, and what the host is like when it comes. */
export interface Asked {
  readonly phase: Phase;
  readonly vmid: number;
  readonly name: string;
  readonly withState?: boolean;
  readonly force?: boolean;
  readonly trouble?: Trouble;
  readonly stopped?: boolean;
  /** Every volume can have snapshots, whatever its name says. */
  readonly anyVolume?: boolean;
  readonly description?: string;
  readonly snaptime?: number;
  readonly state?: SavedVmState;
  /** The next generation id of a guest that goes back. */
  readonly uuid?: string;
}

export interface Outcome {
  readonly error: string | undefined;
  readonly text: string;
  readonly touched: readonly number[];
  readonly removed: readonly number[];
}

export const VOLUME_FAILURES = {
  snapshot: "volume snapshot disabled",
  delete: "volume snapshot delete disabled",
  rollback: "volume snapshot rollback disabled",
  check: "volume_rollback_is_possible failed",
} as const;
const POSSIBLE = { snapshot: [1, 2, 3], delete: [1, 3], rollback: [1, 2, 3], check: [1, 2, 3, 4] } as const;

export const readConfig = (vmid: number, text: string): VmConfig =>
  parseVmConfig(text, { vmid, digestOf: () => "" });

/** Runs what is asked on a configuration and says what came of it. */
export async function runCase(text: string, asked: Asked): Promise<Outcome> {
  const host = new CaseHost(text, asked);
  let error: string | undefined;
  try {
    await run(host, asked);
  } catch (caught) {
    error = messageOf(caught);
  }
  return { error, text: host.text, touched: host.touched, removed: host.removed };
}

async function run(host: CaseHost, asked: Asked): Promise<void> {
  const { phase, name, withState = false, force = false, description = "test comment" } = asked;
  const request = { name, withState, description };
  if (phase === "prepare") await prepare(host, request);
  else if (phase === "commit") await host.update((config) => commitSnapshot(config, name));
  else if (phase === "create") await createSnapshot(host, request);
  else if (phase === "delete") await deleteSnapshot(host, name, { force });
  else await rollbackSnapshot(host, name);
}

class CaseHost implements SnapshotHost {
  readonly rules = vmSnapshotRules;
  readonly vmid: number;
  text: string;
  readonly touched: number[] = [];
  readonly removed: number[] = [];
  readonly #asked: Asked;
  #running: boolean;

  constructor(text: string, asked: Asked) {
    this.text = text;
    this.vmid = asked.vmid;
    this.#asked = asked;
    this.#running = asked.stopped !== true;
  }

  load = async (): Promise<VmConfig> => readConfig(this.vmid, this.text);
  async update(change: (config: VmConfig) => VmConfig): Promise<VmConfig> {
    this.text = writeVmConfig(change(await this.load()));
    return this.load();
  }
  now = () => this.#asked.snaptime ?? 1_234_567_890;
  newUuid = () => this.#asked.uuid ?? "00000000-0000-4000-8000-000000000000";
  warn = () => {};
  isRunning = async () => this.#running;
  hasSnapshotFeature = async () => this.#asked.trouble !== "no-feature";
  wantsFreeze = async () => true;
  activateStorages = async () => this.#fail("no-storage", "storage activation failed");
  freeze = async () => this.#fail("no-freeze", "freeze disabled");
  thaw = async () => this.#fail("no-freeze", "freeze disabled");
  beginState = async () => this.#fail("no-savevm", "savevm-start disabled");
  endState = async () => {};
  freeVolume = async () => {};
  start = async () => {};
  async allocateState(): Promise<SavedVmState> {
    this.#fail("no-state", "save_vmstate failed");
    return this.#asked.state ?? { vmstate: "somestorage:state-volume", runningmachine: "q35" };
  }
  async stop() {
    if (this.#asked.trouble !== "no-stop") this.#running = false;
  }
  snapshotVolume = async (volume: GuestVolume) => void this.touched.push(this.#volume(volume, "snapshot"));
  deleteVolumeSnapshot = async (volume: GuestVolume) =>
    void this.removed.push(this.#volume(volume, "delete"));
  rollbackVolume = async (volume: GuestVolume) => void this.touched.push(this.#volume(volume, "rollback"));
  checkVolumeRollback = async (volume: GuestVolume) => void this.#volume(volume, "check");

  #volume({ volid }: GuestVolume, action: keyof typeof POSSIBLE): number {
    const number = Number(/^local:snapshotable-disk-(\d+)$/.exec(volid)?.[1] ?? 0);
    this.#fail("no-volume", VOLUME_FAILURES[action]);
    if (this.#asked.anyVolume !== true && !(POSSIBLE[action] as readonly number[]).includes(number))
      throw new Error(VOLUME_FAILURES[action]);
    return number;
  }
  #fail(trouble: Trouble, message: string): void {
    if (this.#asked.trouble === trouble) throw new Error(message);
  }
}
