// Snapshot cases that PVE's developers keep: a configuration before and after prepare, commit, create, delete and
// rollback, with storage and guest failing in given ways. The suite holds the files; what each case asks is here.
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { messageOf } from "@gpve/contracts/errors.ts";
import { parseVmConfig } from "@gpve/domain/vm/parse-config.ts";
import type { Drive } from "@gpve/domain/vm/property-types.ts";
import {
  createSnapshot,
  deleteSnapshot,
  prepare,
  rollbackSnapshot,
  type SnapshotHost,
} from "@gpve/domain/vm/snapshot-run.ts";
import { commitSnapshot } from "@gpve/domain/vm/snapshot.ts";
import type { VmConfig } from "@gpve/domain/vm/vm-config.ts";
import { writeVmConfig } from "@gpve/domain/vm/write-config.ts";

const root = resolve(import.meta.dirname, "../..");
const suite = join(process.env["GPVE_SUITES"] ?? resolve(root, "../shared/suites"), "qemu-server-snapshot");
const present = existsSync(join(suite, "snapshot-input"));
if (!present) {
  console.warn(
    `SKIPPED qemu-server-snapshot conformance: no suite at ${suite}; set GPVE_SUITES to the suites' folder`,
  );
}

type Phase = "prepare" | "commit" | "create" | "delete" | "rollback";
type Trouble = "no-feature" | "no-state" | "no-savevm" | "no-freeze" | "no-stop" | "no-storage";

interface Case {
  readonly phase: Phase;
  readonly vmid: number;
  readonly name: string;
  readonly withState?: boolean;
  readonly force?: boolean;
  readonly trouble?: Trouble;
  readonly error?: string;
  /** Volumes touched, by the number at the end of their name. */
  readonly volumes?: readonly number[];
  readonly removed?: readonly number[];
}

const VOLUME_FAILURES = {
  snapshot: "volume snapshot disabled",
  delete: "volume snapshot delete disabled",
  rollback: "volume snapshot rollback disabled",
  check: "volume_rollback_is_possible failed",
} as const;
const POSSIBLE = { snapshot: [1, 2, 3], delete: [1, 3], rollback: [1, 2, 3], check: [1, 2, 3, 4] } as const;

const all: readonly Case[] = [
  { phase: "prepare", vmid: 101, name: "test" },
  { phase: "prepare", vmid: 102, name: "test", withState: true },
  { phase: "prepare", vmid: 103, name: "test2" },
  { phase: "prepare", vmid: 104, name: "test2", withState: true },
  { phase: "prepare", vmid: 200, name: "test", error: "VM is locked (snapshot)" },
  { phase: "prepare", vmid: 201, name: "test", error: "snapshot name 'test' already used" },
  {
    phase: "prepare",
    vmid: 202,
    name: "test",
    withState: true,
    trouble: "no-state",
    error: "save_vmstate failed",
  },
  {
    phase: "prepare",
    vmid: 300,
    name: "test",
    trouble: "no-feature",
    error: "snapshot feature is not available",
  },
  { phase: "commit", vmid: 101, name: "test" },
  { phase: "commit", vmid: 102, name: "test2" },
  { phase: "commit", vmid: 201, name: "test", error: "missing snapshot lock" },
  { phase: "commit", vmid: 202, name: "test", error: "snapshot 'test' does not exist" },
  { phase: "commit", vmid: 203, name: "test", error: "wrong snapshot state" },
  { phase: "create", vmid: 101, name: "test", volumes: [1] },
  { phase: "create", vmid: 102, name: "test", withState: true, volumes: [1] },
  { phase: "create", vmid: 103, name: "test2", volumes: [1] },
  { phase: "create", vmid: 104, name: "test2", withState: true, volumes: [1] },
  { phase: "create", vmid: 105, name: "test", volumes: [1, 2, 3] },
  { phase: "create", vmid: 106, name: "test", withState: true, trouble: "no-freeze", volumes: [1] },
  { phase: "create", vmid: 201, name: "test", error: VOLUME_FAILURES.snapshot },
  { phase: "create", vmid: 202, name: "test", error: VOLUME_FAILURES.snapshot, volumes: [1], removed: [1] },
  { phase: "create", vmid: 203, name: "test", trouble: "no-savevm", error: "savevm-start disabled" },
  { phase: "create", vmid: 301, name: "test", withState: true, volumes: [1] },
  {
    phase: "create",
    vmid: 303,
    name: "test",
    withState: true,
    trouble: "no-storage",
    error: "storage activation failed",
  },
  { phase: "delete", vmid: 101, name: "test", removed: [1] },
  { phase: "delete", vmid: 102, name: "test2", removed: [1] },
  { phase: "delete", vmid: 103, name: "test", removed: [1] },
  { phase: "delete", vmid: 104, name: "test2", removed: [1] },
  { phase: "delete", vmid: 105, name: "test", force: true },
  { phase: "delete", vmid: 106, name: "test", force: true, removed: [1, 3] },
  { phase: "delete", vmid: 201, name: "test", error: VOLUME_FAILURES.delete },
  { phase: "delete", vmid: 202, name: "test", error: VOLUME_FAILURES.delete, removed: [1] },
  { phase: "delete", vmid: 203, name: "test", error: "VM is locked (backup)" },
  { phase: "delete", vmid: 204, name: "test", trouble: "no-storage", error: "storage activation failed" },
  { phase: "rollback", vmid: 101, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 102, name: "test2", volumes: [1] },
  { phase: "rollback", vmid: 103, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 104, name: "test2", volumes: [1] },
  { phase: "rollback", vmid: 105, name: "test", volumes: [1, 2, 3] },
  { phase: "rollback", vmid: 106, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 201, name: "test2", error: "snapshot 'test2' does not exist" },
  { phase: "rollback", vmid: 202, name: "test", error: VOLUME_FAILURES.check },
  {
    phase: "rollback",
    vmid: 203,
    name: "test",
    error: "unable to rollback to incomplete snapshot (snapstate = delete)",
  },
  { phase: "rollback", vmid: 204, name: "test", error: "VM is locked (backup)" },
  {
    phase: "rollback",
    vmid: 205,
    name: "test",
    trouble: "no-stop",
    error: "unable to rollback vm 205: vm is running",
  },
  { phase: "rollback", vmid: 206, name: "test", error: VOLUME_FAILURES.check },
  { phase: "rollback", vmid: 207, name: "test", error: VOLUME_FAILURES.rollback, volumes: [1, 2] },
  { phase: "rollback", vmid: 301, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 302, name: "test", volumes: [1] },
  { phase: "rollback", vmid: 303, name: "test", trouble: "no-storage", error: "storage activation failed" },
];

/** A host whose storage can do what the volume's number says, and that fails as the case wants. */
class CaseHost implements SnapshotHost {
  readonly vmid: number;
  text: string;
  readonly touched: number[] = [];
  readonly removed: number[] = [];
  readonly #trouble: Trouble | undefined;
  #running = true;

  constructor(text: string, testCase: Case) {
    this.text = text;
    this.vmid = testCase.vmid;
    this.#trouble = testCase.trouble;
  }

  async load(): Promise<VmConfig> {
    return parseVmConfig(this.text, { vmid: this.vmid, digestOf: () => "" });
  }
  async update(change: (config: VmConfig) => VmConfig): Promise<VmConfig> {
    this.text = writeVmConfig(change(await this.load()));
    return this.load();
  }
  now = () => 1_234_567_890;
  newUuid = () => "00000000-0000-4000-8000-000000000000";
  warn = () => {};
  isRunning = async () => this.#running;
  hasSnapshotFeature = async () => this.#trouble !== "no-feature";
  wantsFreeze = async () => true;
  activateStorages = async () => this.#fail("no-storage", "storage activation failed");
  freeze = async () => this.#fail("no-freeze", "freeze disabled");
  thaw = async () => this.#fail("no-freeze", "freeze disabled");
  beginState = async () => this.#fail("no-savevm", "savevm-start disabled");
  endState = async () => {};
  freeVolume = async () => {};
  start = async () => {};
  async allocateState() {
    this.#fail("no-state", "save_vmstate failed");
    return { vmstate: "somestorage:state-volume", runningmachine: "q35" };
  }
  async stop() {
    if (this.#trouble !== "no-stop") this.#running = false;
  }
  snapshotVolume = async (_key: string, drive: Drive) =>
    void this.touched.push(this.#volume(drive, "snapshot"));
  deleteVolumeSnapshot = async (_key: string, drive: Drive) =>
    void this.removed.push(this.#volume(drive, "delete"));
  rollbackVolume = async (_key: string, drive: Drive) =>
    void this.touched.push(this.#volume(drive, "rollback"));
  checkVolumeRollback = async (_key: string, drive: Drive) => void this.#volume(drive, "check");

  #volume(drive: Drive, action: keyof typeof POSSIBLE): number {
    const number = Number(/^local:snapshotable-disk-(\d)$/.exec(drive.file)?.[1] ?? 0);
    if (!(POSSIBLE[action] as readonly number[]).includes(number)) throw new Error(VOLUME_FAILURES[action]);
    return number;
  }
  #fail(trouble: Trouble, message: string): void {
    if (this.#trouble === trouble) throw new Error(message);
  }
}

async function run(host: CaseHost, { phase, name, withState = false, force = false }: Case): Promise<void> {
  const request = { name, withState, description: "test comment" };
  if (phase === "prepare") await prepare(host, request);
  else if (phase === "commit") await host.update((config) => commitSnapshot(config, name));
  else if (phase === "create") await createSnapshot(host, request);
  else if (phase === "delete") await deleteSnapshot(host, name, { force });
  else await rollbackSnapshot(host, name);
}

describe.skipIf(!present)("PVE's own snapshot cases", () => {
  const file = (side: string, { phase, vmid }: Case) =>
    join(suite, `snapshot-${side}`, phase, "qemu-server", `${vmid}.conf`);
  const cases = all.filter((each) => existsSync(file("input", each)));
  let passed = 0;
  afterAll(() => {
    const absent = all.length - cases.length;
    console.log(
      `qemu-server-snapshot: ${passed} of ${cases.length} cases agree; ${absent} have no files here`,
    );
  });

  test.each(cases)("$phase of '$name' in $vmid", async (each) => {
    const host = new CaseHost(readFileSync(file("input", each), "utf8"), each);
    let error: string | undefined;
    try {
      await run(host, each);
    } catch (caught) {
      error = messageOf(caught);
    }
    expect({ error, touched: host.touched, removed: host.removed }).toEqual({
      error: each.error,
      touched: each.volumes ?? [],
      removed: each.removed ?? [],
    });
    expect(host.text).toBe(readFileSync(file("expected", each), "utf8"));
    passed++;
  });
});
