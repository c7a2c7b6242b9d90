// Volumes and guest of a VM in memory, for whatever takes, deletes and rolls back its snapshots.
import type { SnapshotHost } from "../snapshot-run.ts";
import { vmSnapshotRules, type StartFromState } from "../../../vm/snapshot/vm-snapshot-rules.ts";
import type { GuestVolume } from "../snapshot-rules.ts";
import { emptyVmConfig, type VmConfig } from "../../../vm/config/vm-config.ts";

export const UUID = "11111111-1111-4111-8111-111111111111";

/** A VM with two disks, a disc drive and a volume it does not use. */
export const twoDisks: VmConfig = {
  ...emptyVmConfig,
  digest: "d1",
  values: {
    cores: "2",
    description: "mine",
    ide2: "none,media=cdrom",
    scsi0: "l1:x,size=1G",
    unused0: "l1:old",
    virtio1: "l2:y",
    vmgenid: "21a7e7bc-3cd2-4232-a009-a41f4ee992ae",
  },
  pending: { cores: "4" },
};

/** A step listed in `failing` throws. */
export class MemoryHost implements SnapshotHost<StartFromState> {
  readonly rules = vmSnapshotRules;
  readonly vmid = 100;
  config: VmConfig;
  running = true;
  readonly failing = new Set<string>();
  readonly log: string[] = [];
  started: StartFromState | undefined;

  constructor(config: VmConfig) {
    this.config = config;
  }
  #do(step: string): Promise<void> {
    this.log.push(step);
    return this.failing.has(step) ? Promise.reject(new Error(`${step} failed`)) : Promise.resolve();
  }
  load = () => Promise.resolve(this.config);
  update(change: (config: VmConfig) => VmConfig): Promise<VmConfig> {
    if (this.failing.has("update")) return Promise.reject(new Error("update failed"));
    this.config = change(this.config);
    return Promise.resolve(this.config);
  }
  now = () => 1000;
  newUuid = () => UUID;
  warn = (message: string) => void this.log.push(`warn ${message}`);
  isRunning = () => Promise.resolve(this.running);
  hasSnapshotFeature = () => Promise.resolve(!this.failing.has("feature"));
  activateStorages = (storages: readonly string[]) => this.#do(`activate ${storages.join("+")}`);
  async allocateState() {
    await this.#do("allocate");
    return {
      vmstate: "l1:state",
      runningmachine: "pc-q35-9.2",
      runningcpu: "host,+aes",
      "running-nets-host-mtu": "net0=1500",
    };
  }
  freeVolume = (volid: string) => this.#do(`free ${volid}`);
  wantsFreeze = () => Promise.resolve(true);
  freeze = () => this.#do("freeze");
  thaw = () => this.#do("thaw");
  beginState = () => this.#do("begin");
  endState = () => this.#do("end");
  snapshotVolume = ({ key }: GuestVolume) => this.#do(`snap ${key}`);
  deleteVolumeSnapshot = ({ key }: GuestVolume) => this.#do(`unsnap ${key}`);
  checkVolumeRollback = ({ key }: GuestVolume) => this.#do(`check ${key}`);
  rollbackVolume = ({ key }: GuestVolume) => this.#do(`rollback ${key}`);
  async stop() {
    await this.#do("stop");
    this.running = false;
  }
  start(state: StartFromState) {
    this.started = state;
    return this.#do("start");
  }
}
